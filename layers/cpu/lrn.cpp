#include "layers/lrn.h"

#include "layers/cpu/elementwise.h"
#include "layers/cpu/vector_math.h"

namespace poseidon::layers::cpu {

namespace {

/// x is the input, and y is the output. g is the gradient of y, and dx is the gradient of x. A
/// window has m elements.
///   s = k + alpha/m * (sum of squares over the window)
///   q = g * x * s^-(beta+1)
///   forward   y  = x * s^-beta
///   backward  dx = g * s^-beta - 2 * alpha/m * beta * x * (sum of q over the window).
/// backward reads x and g, but not y. backward computes s again, which costs less than storing s.
///
/// These are Poseidon's own kernels for every layout and size. oneDNN has fast code for only some
/// layouts and sizes, and needs two tensors as workspace. Forward / backward time in ms for size 5
/// across channels, blocked16, on one Cascade Lake core at 2.5 GHz. Columns: Poseidon, oneDNN
/// 2.6.3.
///   32x96x55x55    12.5 / 19.0    20.2 / 15.5
///   32x256x27x27    8.8 / 14.3    15.7 / 13.7
struct Powers {
  float root, step;  ///< s^-beta, s^-(beta+1)
};

struct BetaThreeQuarters {
  Powers operator()(float s) const {
    const float r = inverse_fourth_root(s), square = r * r;
    return {square * r, square * r * (square * square)};
  }
};

struct AnyBeta {
  float beta;
  Powers operator()(float s) const {
    const float number = fast_exp(-beta * fast_log(s));
    const float root = s == s ? number : s;  // fast_log() of NaN is a number
    return {root, root / s};
  }
};

/// s = k + alpha * (sum of squares over the window). `alpha` is the layer's alpha divided by the
/// number of elements in the window. `gradient` is 2 * alpha * beta.
struct Constants {
  float k, alpha, gradient;
  int64_t size, half;
};

int64_t rounded(int64_t count) { return (count + 15) / 16 * 16; }

/// target[i] = sum of `size` values of `source`, `shift` apart, the first at source[i].
void window_sum(const float* source, int64_t shift, int64_t size, float* target, int64_t count) {
  if (size == 5) {
    const float *a = source, *b = a + shift, *c = b + shift, *d = c + shift, *e = d + shift;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) target[i] = ((a[i] + b[i]) + (d[i] + e[i])) + c[i];
    return;
  }
  std::copy_n(source, count, target);
  for (int64_t k = 1; k < size; ++k) {
    const float* shifted = source + k * shift;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) target[i] += shifted[i];
  }
}

/// Replaces window sums by s^-beta. If `steps` is not null, writes s^-(beta+1) to `steps`.
template <class Beta>
void take_powers(Beta beta, const Constants& constants, float* sums, float* steps, int64_t count) {
  const float k = constants.k, alpha = constants.alpha;
  if (steps == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) sums[i] = beta(k + alpha * sums[i]).root;
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const Powers powers = beta(k + alpha * sums[i]);
    sums[i] = powers.root;
    steps[i] = powers.step;
  }
}

/// The order of a tile, which is a copy of up to kRun positions of a sample with all channels. The
/// channels of a position are `shift` elements apart, with half a window of zeros before and after
/// them. In plain layout kRun positions are adjacent. In other layouts, and if there is only one
/// position, each position is a row of channels.
class Tile {
 public:
  static constexpr int64_t kRun = 16;

  Tile(const Blocking& blocking, const Constants& constants) : b_(blocking) {
    const int64_t channels = b_.blocks * b_.block + 2 * constants.half;
    side_by_side_ = b_.block == 1 && b_.area > 1;
    row_ = rounded(channels);
    shift_ = side_by_side_ ? kRun : 1;
    start_ = constants.half * shift_;
    length_ = kRun * (side_by_side_ ? channels : row_);
  }

  int64_t shift() const { return shift_; }
  int64_t start() const { return start_; }  ///< offset of the first channel of the first position
  /// Elements. A window that begins at one of the first length() - 2 * start() elements ends inside
  /// the tile.
  int64_t length() const { return length_; }
  int64_t runs() const { return (b_.area + kRun - 1) / kRun; }

  /// Calls visit(offset in the tensor, offset in the tile, length) for the contiguous segments of a
  /// run.
  template <class Visit>
  void for_pieces(int64_t sample, int64_t run, const Visit& visit) const {
    const int64_t first = run * kRun, positions = std::min(kRun, b_.area - first);
    if (side_by_side_) {
      for (int64_t c = 0; c < b_.channels; ++c)
        visit(b_.offset(sample, c, first), start_ + c * kRun, positions);
    } else if (b_.area == 1) {
      visit(sample * b_.blocks * b_.block, start_, b_.blocks * b_.block);
    } else if (b_.block == 16) {
      for_rows<16>(sample, first, positions, visit);
    } else if (b_.block == 8) {
      for_rows<8>(sample, first, positions, visit);
    } else {
      for_rows<0>(sample, first, positions, visit);
    }
  }

 private:
  /// kBlock: channels per block as a constant, so that the compiler can unroll loops over a block;
  /// 0: the length is known only at run time.
  template <int64_t kBlock, class Visit>
  void for_rows(int64_t sample, int64_t first, int64_t positions, const Visit& visit) const {
    const int64_t block = kBlock > 0 ? kBlock : b_.block;
    for (int64_t i = 0; i < positions; ++i)
      for (int64_t k = 0; k < b_.blocks; ++k)
        visit(((sample * b_.blocks + k) * b_.area + first + i) * block,
              start_ + i * row_ + k * block, block);
  }

  Blocking b_;
  bool side_by_side_;
  int64_t row_, shift_, start_, length_;
};

/// Memory of one thread: `rows` rows of `length` elements. The constructor sets the rows to zero,
/// because windows read padding.
class ThreadRows {
 public:
  ThreadRows(std::byte* scratch, int thread, int64_t length, int64_t rows)
      : data_(reinterpret_cast<float*>(scratch) + thread * rounded(length) * rows),
        length_(rounded(length)) {
    std::fill_n(data_, length_ * rows, 0.0F);
  }
  float* operator[](int64_t row) const { return data_ + row * length_; }

  static size_t bytes(int64_t length, int64_t rows, int threads) {
    return static_cast<size_t>(rounded(length) * rows * threads) * sizeof(float);
  }

 private:
  float* data_;
  int64_t length_;
};

template <class Element, class Beta>
class AcrossChannels {
 public:
  AcrossChannels(const Blocking& blocking, const Constants& constants, const Beta& beta)
      : b_(blocking), constants_(constants), beta_(beta), tile_(blocking, constants) {}

  size_t scratch_bytes(bool training, int threads) const {
    return ThreadRows::bytes(tile_.length(), training ? 4 : 2, threads);
  }

  void forward(ThreadTeam& team, const Element* x, Element* y, std::byte* scratch) const {
    for_tiles(team, scratch, 2, [&](const ThreadRows& rows, int64_t sample, int64_t run) {
      float *squares = rows[0], *roots = rows[1];
      square(x, sample, run, squares);
      window_sum(squares, tile_.shift(), constants_.size, roots + tile_.start(), inner());
      take_powers(beta_, constants_, roots + tile_.start(), nullptr, inner());
      tile_.for_pieces(sample, run, [&](int64_t m, int64_t t, int64_t length) {
#pragma omp simd
        for (int64_t i = 0; i < length; ++i) y[m + i] = x[m + i] * roots[t + i];
      });
    });
  }

  void backward(ThreadTeam& team, const Element* x, const Element* g, Element* dx,
                std::byte* scratch) const {
    for_tiles(team, scratch, 4, [&](const ThreadRows& rows, int64_t sample, int64_t run) {
      float *squares = rows[0], *roots = rows[1], *steps = rows[2], *products = rows[3];
      square(x, sample, run, squares);
      const int64_t start = tile_.start();
      window_sum(squares, tile_.shift(), constants_.size, roots + start, inner());
      take_powers(beta_, constants_, roots + start, steps + start, inner());
      tile_.for_pieces(sample, run, [&](int64_t m, int64_t t, int64_t length) {
#pragma omp simd
        for (int64_t i = 0; i < length; ++i) products[t + i] = g[m + i] * x[m + i] * steps[t + i];
      });
      float* sums = steps;  // reuses the memory of the steps
      window_sum(products, tile_.shift(), constants_.size, sums + start, inner());
      const float factor = constants_.gradient;
      tile_.for_pieces(sample, run, [&](int64_t m, int64_t t, int64_t length) {
#pragma omp simd
        for (int64_t i = 0; i < length; ++i)
          dx[m + i] = g[m + i] * roots[t + i] - factor * x[m + i] * sums[t + i];
      });
    });
  }

 private:
  /// Elements from the first channel of the first position to the last channel of the last
  /// position.
  int64_t inner() const { return tile_.length() - 2 * tile_.start(); }

  void square(const Element* x, int64_t sample, int64_t run, float* squares) const {
    tile_.for_pieces(sample, run, [&](int64_t m, int64_t t, int64_t length) {
#pragma omp simd
      for (int64_t i = 0; i < length; ++i) squares[t + i] = x[m + i] * x[m + i];
    });
  }

  template <class Work>
  void for_tiles(ThreadTeam& team, std::byte* scratch, int64_t row_count, const Work& work) const {
    const int64_t at_once = std::max<int64_t>(1, kElementsOfTask / tile_.length());
    team.run_ranges(b_.samples * tile_.runs(), at_once,
                    [&](int64_t first, int64_t end, int thread) {
                      const ThreadRows rows(scratch, thread, tile_.length(), row_count);
                      for (int64_t i = first; i < end; ++i)
                        work(rows, i / tile_.runs(), i % tile_.runs());
                    });
  }

  Blocking b_;
  Constants constants_;
  Beta beta_;
  Tile tile_;
};

/// An image is one block of channels of one sample. Its rows have width * block elements, and
/// horizontal neighbors are `block` elements apart. The window is summed vertically first.
template <class Element, class Beta>
class WithinChannel {
 public:
  WithinChannel(const Blocking& blocking, const Shape& shape, const Constants& constants,
                const Beta& beta)
      : b_(blocking),
        height_(shape.height()),
        row_(shape.width() * blocking.block),
        constants_(constants),
        beta_(beta) {}

  size_t scratch_bytes(bool training, int threads) const {
    const size_t products = training ? ThreadRows::bytes(height_ * row_, 1, threads) : 0;
    return ThreadRows::bytes(padded_row(), 3, threads) + products;
  }

  void forward(ThreadTeam& team, const Element* x, Element* y, std::byte* scratch) const {
    for_images(team, scratch, [&](const ThreadRows& rows, int64_t at, int) {
      forward_image(x + at, y + at, rows);
    });
  }

  void backward(ThreadTeam& team, const Element* x, const Element* g, Element* dx,
                std::byte* scratch) const {
    std::byte* behind = scratch + ThreadRows::bytes(padded_row(), 3, team.threads());
    for_images(team, scratch, [&](const ThreadRows& rows, int64_t at, int thread) {
      std::byte* products = behind + ThreadRows::bytes(height_ * row_, 1, thread);
      backward_image(x + at, g + at, dx + at, rows, reinterpret_cast<float*>(products));
    });
  }

 private:
  /// Calls work(rows of the thread, offset of the image, thread) for each image.
  template <class Work>
  void for_images(ThreadTeam& team, std::byte* scratch, const Work& work) const {
    const int64_t length = height_ * row_;
    const int64_t at_once = std::max<int64_t>(1, kElementsOfTask / length);
    team.run_ranges(b_.samples * b_.blocks, at_once, [&](int64_t first, int64_t end, int thread) {
      const ThreadRows rows(scratch, thread, padded_row(), 3);
      for (int64_t image = first; image < end; ++image) work(rows, image * length, thread);
    });
  }
  int64_t padded_row() const { return row_ + 2 * constants_.half * b_.block; }

  /// sums = sum of value(element) over the window around each element of row `y`.
  template <class Value>
  void sum_windows(int64_t y, const Value& value, float* columns, float* sums) const {
    const int64_t half = constants_.half, first = std::max<int64_t>(0, y - half);
    const int64_t last = std::min(height_ - 1, y + half);
    float* column = columns + half * b_.block;
    std::fill_n(column, row_, 0.0F);
    for (int64_t row = first; row <= last; ++row)
#pragma omp simd
      for (int64_t i = 0; i < row_; ++i) column[i] += value(row * row_ + i);
    window_sum(columns, b_.block, constants_.size, sums, row_);
  }

  void forward_image(const Element* x, Element* y, const ThreadRows& rows) const {
    float* roots = rows[1];
    for (int64_t row = 0; row < height_; ++row) {
      sum_windows(
          row, [=](int64_t i) { return x[i] * x[i]; }, rows[0], roots);
      take_powers(beta_, constants_, roots, nullptr, row_);
      const Element* in = x + row * row_;
      Element* out = y + row * row_;
#pragma omp simd
      for (int64_t i = 0; i < row_; ++i) out[i] = in[i] * roots[i];
    }
  }

  void backward_image(const Element* x, const Element* g, Element* dx, const ThreadRows& rows,
                      float* products) const {
    float *roots = rows[1], *steps = rows[2];
    for (int64_t row = 0; row < height_; ++row) {
      sum_windows(
          row, [=](int64_t i) { return x[i] * x[i]; }, rows[0], roots);
      take_powers(beta_, constants_, roots, steps, row_);
      const int64_t at = row * row_;
#pragma omp simd
      for (int64_t i = 0; i < row_; ++i) {
        products[at + i] = g[at + i] * x[at + i] * steps[i];
        dx[at + i] = g[at + i] * roots[i];
      }
    }
    float* sums = rows[1];
    const float factor = constants_.gradient;
    for (int64_t row = 0; row < height_; ++row) {
      sum_windows(
          row, [=](int64_t i) { return products[i]; }, rows[0], sums);
      const int64_t at = row * row_;
#pragma omp simd
      for (int64_t i = 0; i < row_; ++i) dx[at + i] = dx[at + i] - factor * x[at + i] * sums[i];
    }
  }

  Blocking b_;
  int64_t height_, row_;
  Constants constants_;
  Beta beta_;
};

template <class Element, class Region>
class CpuLrn final : public CpuLayer {
 public:
  CpuLrn(const LayerRequest& request, CpuDevice& device, const Region& region)
      : CpuLayer(request, device), region_(region) {
    needs_.backward_reads_inputs = true;
    needs_.scratch_bytes = region_.scratch_bytes(request.training, device.threads());
  }

  void forward(const StepContext&, const Bindings& memory) override {
    region_.forward(team(), memory.inputs[0].as<Element>(), memory.output.as<Element>(),
                    memory.scratch);
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    const auto* gradient = combined_gradient(team(), memory, std::nullopt).template as<Element>();
    region_.backward(team(), memory.inputs[0].as<Element>(), gradient,
                     memory.input_gradients[0].as<Element>(), memory.scratch);
  }

 private:
  Region region_;
};

template <class Element, class Beta>
std::unique_ptr<Layer> make_with(const LayerRequest& request, CpuDevice& device, const Lrn& lrn,
                                 const Beta& beta) {
  const Constants constants{.k = static_cast<float>(lrn.k),
                            .alpha = static_cast<float>(lrn.scaled_alpha()),
                            .gradient = static_cast<float>(2 * lrn.scaled_alpha() * lrn.beta),
                            .size = lrn.size,
                            .half = lrn.size / 2};
  const Blocking blocking(lrn.input, request.input_formats[0].layout);
  if (lrn.region == LrnRegion::kAcrossChannels)
    return std::make_unique<CpuLrn<Element, AcrossChannels<Element, Beta>>>(
        request, device, AcrossChannels<Element, Beta>(blocking, constants, beta));
  return std::make_unique<CpuLrn<Element, WithinChannel<Element, Beta>>>(
      request, device, WithinChannel<Element, Beta>(blocking, lrn.input, constants, beta));
}

}  // namespace

std::unique_ptr<Layer> make_lrn(const LayerRequest& request, CpuDevice& device) {
  const auto& lrn = static_cast<const Lrn&>(request.definition);
  return with_element_of(request.input_formats[0].type, [&](auto element) {
    using Element = decltype(element);
    if (lrn.beta == 0.75) return make_with<Element>(request, device, lrn, BetaThreeQuarters{});
    return make_with<Element>(request, device, lrn, AnyBeta{static_cast<float>(lrn.beta)});
  });
}

}  // namespace poseidon::layers::cpu
