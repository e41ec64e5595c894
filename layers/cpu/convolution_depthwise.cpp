#include <algorithm>
#include <utility>

#include "layers/cpu/convolution_pass.h"
#include "layers/cpu/scratch.h"
#include "layers/cpu/stencil.h"

namespace poseidon::layers::cpu {

namespace {

using namespace poseidon::cpu;

using Lanes = Vectors<kLanesOfBlock>::Float;

/// The size in bytes that a Band should not exceed: half of a second-level cache of 256 KiB.
constexpr int64_t kBandBytes = 128 << 10;

/// Calls body once, with `n` as a std::integral_constant. `n` is from 1 to kMax.
template <int kMax, class Body>
void with_constant(int64_t n, const Body& body) {
  [&]<int... kBelow>(std::integer_sequence<int, kBelow...>) {
    static_cast<void>(
        ((n == kBelow + 1 && (body(std::integral_constant<int, kBelow + 1>{}), true)) || ...));
  }(std::make_integer_sequence<int, kMax>{});
}

/// The geometry of a band, which is a copy, as floats, of the source rows from which some target
/// rows are computed. The source is one plane: a block of 8 or 16 channels of one sample. The band
/// has zeros around the plane, so that the same code computes all target cells.
class Band {
 public:
  /// The offset of a tap's source cell from the band address of the target cell, and the offset of
  /// the tap's weight.
  struct Tap {
    int64_t cell, weight;  ///< floats
  };

  Band(StencilAxis rows, StencilAxis columns)
      : rows_(std::move(rows)),
        columns_(std::move(columns)),
        width_(columns_.reach(columns_.most_in_phase())) {
    const int64_t fitting = kBandBytes / (width_ * kLanesOfBlock * int64_t{sizeof(float)});
    while (steps_ < rows_.most_in_phase() && rows_.reach(steps_ + 1) <= fitting) ++steps_;
  }

  size_t bytes() const {
    return static_cast<size_t>(rows_.reach(steps_) * width_ * kLanesOfBlock) * sizeof(float);
  }
  const StencilAxis& rows() const { return rows_; }
  const StencilAxis& columns() const { return columns_; }
  int64_t source_area() const { return rows_.source * columns_.source; }
  int64_t target_area() const { return rows_.target * columns_.target; }
  /// The distance in the band, in floats, between the source cells of two neighboring target cells
  /// of a phase.
  int64_t next_cell() const { return columns_.source_step * kLanesOfBlock; }

  /// The taps of one phase of the rows and one of the columns. `kernel_width` is the width of the
  /// kernel.
  std::vector<Tap> taps_of(const StencilAxis::Phase& row, const StencilAxis::Phase& column,
                           int64_t kernel_width) const {
    std::vector<Tap> taps;
    for (const auto& y : row.taps)
      for (const auto& x : column.taps) {
        const int64_t cell =
            (y.shift - rows_.least_shift()) * width_ + x.shift - columns_.least_shift();
        taps.push_back(
            {cell * kLanesOfBlock, (y.kernel * kernel_width + x.kernel) * kLanesOfBlock});
      }
    return taps;
  }

  /// Calls body(i, address in the band) for all row numbers i of the longest phase. Row i of every
  /// phase reads the band from that address on. The band is filled again after every steps_ rows.
  template <class Element, class Body>
  void for_each_row(const Element* plane, float* band, const Body& body) const {
    for (int64_t first = 0; first < rows_.most_in_phase(); first += steps_) {
      const int64_t end = std::min(first + steps_, rows_.most_in_phase());
      fill(plane, first, end, band);
      for (int64_t i = first; i < end; ++i)
        body(i, band + (i - first) * rows_.source_step * width_ * kLanesOfBlock);
    }
  }

 private:
  template <class Element>
  void fill(const Element* plane, int64_t first, int64_t end, float* band) const {
    const int64_t top = first * rows_.source_step + rows_.least_shift();
    const int64_t left = columns_.least_shift();
    const int64_t begin_x = std::clamp<int64_t>(-left, 0, width_);
    const int64_t end_x = std::clamp(columns_.source - left, begin_x, width_);
    for (int64_t y = 0; y < rows_.reach(end - first); ++y, band += width_ * kLanesOfBlock) {
      const bool is_real = top + y >= 0 && top + y < rows_.source;
      const int64_t begin = is_real ? begin_x : width_, stop = is_real ? end_x : width_;
      std::fill(band, band + begin * kLanesOfBlock, 0.0F);
      const Element* from = plane + ((top + y) * columns_.source + left) * kLanesOfBlock;
      for (int64_t x = begin; x < stop; ++x)
        store(band + x * kLanesOfBlock, load<Lanes>(from + x * kLanesOfBlock));
      std::fill(band + stop * kLanesOfBlock, band + width_ * kLanesOfBlock, 0.0F);
    }
  }

  StencilAxis rows_, columns_;
  int64_t width_;      ///< cells
  int64_t steps_ = 1;  ///< rows of each phase computed from one band
};

/// The initial value of each sum, and the function that converts a sum to a value of the target.
struct Finish {
  Lanes bias{};
  std::optional<float> relu = std::nullopt;  ///< the negative slope

  Lanes operator()(const Lanes& sum) const { return relu ? (sum > 0 ? sum : *relu * sum) : sum; }
};

/// Computes kCells neighboring target cells of a phase.
template <int kCells, class Element>
void make_cells(const std::vector<Band::Tap>& taps, const float* band, int64_t next_cell,
                const float* weight, const Finish& finish, Element* target, int64_t next_target) {
  Lanes sums[kCells];
#pragma GCC unroll 8
  for (int i = 0; i < kCells; ++i) sums[i] = finish.bias;
  for (const Band::Tap& tap : taps) {
    const Lanes factor = load<Lanes>(weight + tap.weight);
    const float* cell = band + tap.cell;
#pragma GCC unroll 8
    for (int i = 0; i < kCells; ++i) sums[i] += load<Lanes>(cell + i * next_cell) * factor;
  }
#pragma GCC unroll 8
  for (int i = 0; i < kCells; ++i) store<Lanes>(target + i * next_target, finish(sums[i]));
}

/// Computes the forward pass or the backward data pass. In both, each target cell is a weighted sum
/// of source cells.
class Sweep {
 public:
  Sweep(StencilAxis rows, StencilAxis columns, int64_t kernel_width)
      : band_(std::move(rows), std::move(columns)) {
    for (const auto& row : band_.rows().phases)
      for (const auto& column : band_.columns().phases)
        taps_.push_back(band_.taps_of(row, column, kernel_width));
  }

  const Band& band() const { return band_; }

  template <class Element>
  void run(const Element* source, const float* weight, const Finish& finish, Element* target,
           float* band) const {
    band_.for_each_row(source, band, [&](int64_t i, const float* row) {
      const std::vector<Band::Tap>* taps = taps_.data();
      for (const auto& phase : band_.rows().phases) {
        const int64_t y = phase.first + i * band_.rows().target_step;
        Element* to = target + y * band_.columns().target * kLanesOfBlock;
        for (const auto& column : band_.columns().phases) {
          if (i < phase.count) make_row(*taps, column, row, weight, finish, to);
          ++taps;
        }
      }
    });
  }

 private:
  /// The number of cells whose sums fit in registers.
  static constexpr int64_t kMaxCells = 8;

  /// Computes the cells of one phase of the columns, in parts of nearly equal length.
  template <class Element>
  void make_row(const std::vector<Band::Tap>& taps, const StencilAxis::Phase& column,
                const float* row, const float* weight, const Finish& finish, Element* to) const {
    const int64_t next_target = band_.columns().target_step * kLanesOfBlock;
    const int64_t parts = (column.count + kMaxCells - 1) / kMaxCells;
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t first = column.count * part / parts;
      with_constant<kMaxCells>(column.count * (part + 1) / parts - first, [&](auto count) {
        make_cells<count>(taps, row + first * band_.next_cell(), band_.next_cell(), weight, finish,
                          to + column.first * kLanesOfBlock + first * next_target, next_target);
      });
    }
  }

  Band band_;
  /// The taps of each pair (phase of the rows, phase of the columns), row phase first.
  std::vector<std::vector<Band::Tap>> taps_;
};

/// Base class of the depthwise passes. A plane is one block of channels of one sample.
class DepthwisePass : public ConvolutionPass {
 public:
  explicit DepthwisePass(const ConvolutionParts& parts)
      : channels_(parts.convolution.outputs),
        samples_(parts.convolution.input.samples()),
        taps_(parts.convolution.kernel[0] * parts.convolution.kernel[1]),
        team_(parts.device.team()) {}

  std::string implementation() const override { return "Poseidon depthwise"; }

 protected:
  int64_t blocks() const { return (channels_ + kLanesOfBlock - 1) / kLanesOfBlock; }
  int64_t real_lanes(int64_t block) const {
    return std::min<int64_t>(kLanesOfBlock, channels_ - block * kLanesOfBlock);
  }
  size_t bytes_of(const Band& band) const {
    return static_cast<size_t>(team_.threads()) * Scratch::rounded(band.bytes());
  }
  static float* band_of_thread(const Band& band, std::byte* bands, int thread) {
    return reinterpret_cast<float*>(bands +
                                    static_cast<size_t>(thread) * Scratch::rounded(band.bytes()));
  }

  int64_t channels_, samples_;
  int64_t taps_;  ///< taps of a kernel
  ThreadTeam& team_;
};

class DepthwiseSweep final : public DepthwisePass {
 public:
  DepthwiseSweep(const ConvolutionParts& parts, Sweep sweep, bool forward)
      : DepthwisePass(parts),
        sweep_(std::move(sweep)),
        forward_(forward),
        bias_(forward && parts.convolution.bias),
        relu_(forward ? parts.relu : std::nullopt) {}

  size_t scratch_bytes() const override { return bytes_of(sweep_.band()); }

  void run(const Bindings& memory, const Tensor& gradient) override {
    const Tensor& source = forward_ ? memory.inputs[0] : gradient;
    const Tensor& target = forward_ ? memory.output : memory.input_gradients[0];
    with_element_of(source.format.type, [&](auto element) {
      run_planes(source.as<decltype(element)>(), memory, target.as<decltype(element)>());
    });
  }

 private:
  template <class Element>
  void run_planes(const Element* source, const Bindings& memory, Element* target) const {
    const Band& band = sweep_.band();
    team_.run_ranges(samples_ * blocks(), 1, [&](int64_t first, int64_t end, int thread) {
      for (int64_t plane = first; plane < end; ++plane) {
        const int64_t block = plane % blocks();
        sweep_.run(source + plane * band.source_area() * kLanesOfBlock,
                   memory.parameters[0].value + block * taps_ * kLanesOfBlock,
                   finish(memory, block), target + plane * band.target_area() * kLanesOfBlock,
                   band_of_thread(band, memory.scratch, thread));
      }
    });
  }

  Finish finish(const Bindings& memory, int64_t block) const {
    Finish made{.relu = relu_};
    if (bias_)
      for (int64_t lane = 0; lane < real_lanes(block); ++lane)
        made.bias[lane] = memory.parameters[1].value[block * kLanesOfBlock + lane];
    return made;
  }

  Sweep sweep_;
  bool forward_, bias_;
  std::optional<float> relu_;
};

/// The weight's gradient. The division of samples into parts depends only on the number of samples.
/// The sums of the parts are added in order, so the bits do not depend on the number of threads.
class DepthwiseBackwardWeights final : public DepthwisePass {
 public:
  explicit DepthwiseBackwardWeights(const ConvolutionParts& parts)
      : DepthwisePass(parts),
        bias_(parts.convolution.bias),
        parts_(std::min(samples_, kMaxParts)),
        band_(StencilAxis::of_forward(parts.convolution, 0),
              StencilAxis::of_forward(parts.convolution, 1)),
        cells_(band_.taps_of(band_.rows().phases[0], band_.columns().phases[0],
                             parts.convolution.kernel[1])) {}

  size_t scratch_bytes() const override { return bytes_of_sums() + bytes_of(band_); }

  void run(const Bindings& memory, const Tensor& gradient) override {
    auto* sums = reinterpret_cast<float*>(memory.scratch);
    std::byte* bands = memory.scratch + bytes_of_sums();
    with_element_of(gradient.format.type, [&](auto element) {
      using Element = decltype(element);
      team_.run_ranges(parts_ * blocks(), 1, [&](int64_t first, int64_t end, int thread) {
        for (int64_t i = first; i < end; ++i)
          sum_part(memory.inputs[0].as<Element>(), gradient.as<Element>(), i / blocks(),
                   i % blocks(), band_of_thread(band_, bands, thread),
                   sums_of(sums, i / blocks(), i % blocks()));
      });
    });
    for_each_item(team_, blocks(), parts_ * vectors() * kLanesOfBlock,
                  [&](int64_t block) { add_parts(sums, block, memory); });
  }

 private:
  static constexpr int64_t kMaxParts = 16;
  /// The number of taps whose sums fit in registers.
  static constexpr int64_t kMaxTaps = 12;

  /// The number of vectors of sums of one part and block: one for each tap, and one for the bias.
  int64_t vectors() const { return taps_ + 1; }
  float* sums_of(float* sums, int64_t part, int64_t block) const {
    return sums + (part * blocks() + block) * vectors() * kLanesOfBlock;
  }
  size_t bytes_of_sums() const {
    return Scratch::rounded(static_cast<size_t>(parts_ * blocks() * vectors() * kLanesOfBlock) *
                            sizeof(float));
  }

  template <class Element>
  void sum_part(const Element* input, const Element* gradient, int64_t part, int64_t block,
                float* band, float* sums) const {
    std::fill(sums, sums + vectors() * kLanesOfBlock, 0.0F);
    for (int64_t sample = samples_ * part / parts_; sample < samples_ * (part + 1) / parts_;
         ++sample) {
      const int64_t plane = sample * blocks() + block;
      const Element* from = gradient + plane * band_.target_area() * kLanesOfBlock;
      band_.for_each_row(input + plane * band_.source_area() * kLanesOfBlock, band,
                         [&](int64_t y, const float* row) {
                           sum_row(row, from + y * band_.columns().target * kLanesOfBlock, sums);
                         });
    }
  }

  template <class Element>
  void sum_row(const float* band, const Element* gradient, float* sums) const {
    const int64_t groups = (taps_ + kMaxTaps - 1) / kMaxTaps;
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t first = taps_ * group / groups;
      with_constant<kMaxTaps>(taps_ * (group + 1) / groups - first, [&](auto count) {
        sum_taps<count>(first, band, gradient, sums + first * kLanesOfBlock);
      });
    }
    if (!bias_) return;
    Lanes sum = load<Lanes>(sums + taps_ * kLanesOfBlock);
    for (int64_t x = 0; x < band_.columns().target; ++x)
      sum += load<Lanes>(gradient + x * kLanesOfBlock);
    store(sums + taps_ * kLanesOfBlock, sum);
  }

  template <int kTaps, class Element>
  void sum_taps(int64_t first, const float* band, const Element* gradient, float* sums) const {
    Lanes sum[kTaps];
    const float* cell[kTaps];
#pragma GCC unroll 12
    for (int i = 0; i < kTaps; ++i) {
      sum[i] = load<Lanes>(sums + i * kLanesOfBlock);
      cell[i] = band + cells_[static_cast<size_t>(first + i)].cell;
    }
    const int64_t next_cell = band_.next_cell();
    for (int64_t x = 0; x < band_.columns().target; ++x) {
      const Lanes factor = load<Lanes>(gradient + x * kLanesOfBlock);
#pragma GCC unroll 12
      for (int i = 0; i < kTaps; ++i) sum[i] += load<Lanes>(cell[i] + x * next_cell) * factor;
    }
#pragma GCC unroll 12
    for (int i = 0; i < kTaps; ++i) store(sums + i * kLanesOfBlock, sum[i]);
  }

  void add_parts(float* sums, int64_t block, const Bindings& memory) const {
    float* total = sums_of(sums, 0, block);
    for (int64_t part = 1; part < parts_; ++part) {
      const float* more = sums_of(sums, part, block);
      for (int64_t i = 0; i < vectors() * kLanesOfBlock; ++i) total[i] += more[i];
    }
    std::copy_n(total, taps_ * kLanesOfBlock,
                memory.parameters[0].gradient + block * taps_ * kLanesOfBlock);
    if (bias_)
      std::copy_n(total + taps_ * kLanesOfBlock, real_lanes(block),
                  memory.parameters[1].gradient + block * kLanesOfBlock);
  }

  bool bias_;
  int64_t parts_;  ///< number of parts into which the samples are divided
  Band band_;
  std::vector<Band::Tap> cells_;  ///< in the order of the kernel, row by row
};

Sweep sweep_of(const Convolution& convolution, StencilAxis (*axis)(const Convolution&, size_t)) {
  return {axis(convolution, 0), axis(convolution, 1), convolution.kernel[1]};
}

}  // namespace

bool depthwise_is_legal(CpuDevice& device, const Convolution& c,
                        const ConvolutionFormats& formats) {
  const Layout blocked = device.blocked_layout();
  return c.groups > 1 && c.groups == c.outputs && c.groups == c.input.channels() &&
         formats.in == blocked && formats.out == blocked &&
         (blocked == Layout::kBlocked16) == (kLanesOfBlock == 16);
}

MemoryDesc depthwise_weight(const OnednnConvolution& onednn) {
  return {onednn.weight_shape(), kFloat,
          kLanesOfBlock == 16 ? FormatTag::Goihw16g : FormatTag::Goihw8g};
}

std::unique_ptr<ConvolutionPass> make_depthwise_forward(const ConvolutionParts& parts) {
  return std::make_unique<DepthwiseSweep>(
      parts, sweep_of(parts.convolution, StencilAxis::of_forward), true);
}

std::unique_ptr<ConvolutionPass> make_depthwise_backward_data(const ConvolutionParts& parts) {
  return std::make_unique<DepthwiseSweep>(
      parts, sweep_of(parts.convolution, StencilAxis::of_backward_data), false);
}

std::unique_ptr<ConvolutionPass> make_depthwise_backward_weights(const ConvolutionParts& parts) {
  return std::make_unique<DepthwiseBackwardWeights>(parts);
}

}  // namespace poseidon::layers::cpu
