#include "layers/pooling.h"

#include <algorithm>

#include "core/error.h"
#include "layers/cuda/channels.cuh"
#include "layers/cuda/divisor.cuh"

namespace poseidon::layers::cuda {

namespace {

/// The cells of one axis that a window holds: [begin, end) of the input; `origin` is where it would
/// begin with the padding.
struct PoolingWindow {
  int32_t origin, begin, end;
};

/// Windows over one axis.
struct PoolingAxis {
  int32_t input, output, kernel, padding;
  Divisor stride;

  /// Where a window would begin with the padding.
  constexpr int32_t origin(int32_t o) const {
    return o * static_cast<int32_t>(stride.value()) - padding;
  }
  POSEIDON_DEVICE PoolingWindow window(int32_t o) const {
    const int32_t first = origin(o), end = first + kernel;
    return {first, first > 0 ? first : 0, end < input ? end : input};
  }
  /// The windows that hold a cell are [first_holding, end_holding).
  POSEIDON_DEVICE int32_t first_holding(int32_t cell) const {
    const int32_t past = cell + padding - kernel;
    return past < 0 ? 0 : static_cast<int32_t>(stride.quotient(static_cast<uint32_t>(past)) + 1);
  }
  POSEIDON_DEVICE int32_t end_holding(int32_t cell) const {
    const auto end =
        static_cast<int32_t>(stride.quotient(static_cast<uint32_t>(cell + padding)) + 1);
    return end < output ? end : output;
  }
  /// Cells of the padded input that a window holds. Only the last one may hang over.
  int64_t cells(bool last) const {
    return std::min<int64_t>(kernel, input + padding - origin(last ? output - 1 : 0));
  }
};

PoolingAxis axis_of(const Pooling& pooling, int axis) {
  const auto i = static_cast<size_t>(axis);
  return {.input = static_cast<int32_t>(pooling.input[2 + axis]),
          .output = static_cast<int32_t>(pooling.output[2 + axis]),
          .kernel = static_cast<int32_t>(pooling.kernel[i]),
          .padding = static_cast<int32_t>(pooling.padding[i]),
          .stride = Divisor(static_cast<uint32_t>(pooling.stride[i]))};
}

/// The geometry of a layer.
struct PoolingPlan {
  PoolingAxis rows, columns;
  uint32_t samples, channels;
  /// Of each cell in a mean, by whether the window is the last one of its axis.
  float shares[2][2];

  int64_t inputs() const { return int64_t{samples} * rows.input * columns.input * channels; }
  int64_t outputs() const { return int64_t{samples} * rows.output * columns.output * channels; }
  POSEIDON_DEVICE float share(int32_t row, int32_t column) const {
    return shares[row + 1 == rows.output ? 1 : 0][column + 1 == columns.output ? 1 : 0];
  }
};

PoolingPlan plan_of(const Pooling& pooling) {
  PoolingPlan plan{.rows = axis_of(pooling, 0),
                   .columns = axis_of(pooling, 1),
                   .samples = static_cast<uint32_t>(pooling.input.samples()),
                   .channels = static_cast<uint32_t>(pooling.input.channels()),
                   .shares = {}};
  for (const bool last_row : {false, true})
    for (const bool last_column : {false, true})
      plan.shares[last_row][last_column] =
          1 / static_cast<float>(plan.rows.cells(last_row) * plan.columns.cells(last_column));
  return plan;
}

/// One position of a plane and a group there: what a thread takes of its channels.
struct PoolingSite {
  uint32_t group, sample;
  int32_t y, x;
};

/// The sites that a kernel goes through, the groups of a position first.
struct PoolingSites {
  Divisor groups, width, height;

  PoolingSites(int64_t groups_of_position, int32_t rows, int32_t columns)
      : groups(static_cast<uint32_t>(groups_of_position)),
        width(static_cast<uint32_t>(columns)),
        height(static_cast<uint32_t>(rows)) {}

  POSEIDON_DEVICE PoolingSite site(uint32_t index) const {
    PoolingSite site;
    site.group = groups.take_from(index);
    site.x = static_cast<int32_t>(width.take_from(index));
    site.y = static_cast<int32_t>(height.take_from(index));
    site.sample = index;
    return site;
  }
};

/// The sum of the cells of a window, so far.
template <class Element, int kWidth>
struct MeanOfWindow {
  using Values = Channels<kWidth>;
  using Place = uint8_t;  // of which it keeps none
  template <uint32_t kThreads>
  struct Parts {
    float sums[kWidth][kThreads];
  };

  Values sum{};

  POSEIDON_DEVICE explicit MeanOfWindow(const Values&, uint32_t) {}
  POSEIDON_DEVICE void take(const Values& cell, uint32_t) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum[i] += cell[i];
  }
  template <uint32_t kThreads>
  POSEIDON_DEVICE void give(Parts<kThreads>& parts, uint32_t thread) const {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) parts.sums[i][thread] = sum[i];
  }
  template <uint32_t kThreads>
  POSEIDON_DEVICE void join(const Parts<kThreads>& parts, uint32_t thread) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum[i] += parts.sums[i][thread];
  }
  POSEIDON_DEVICE void finish(float share, Element* out, uint8_t*) const {
    Values mean;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) mean[i] = sum[i] * share;
    store_channels<kWidth>(out, mean);
  }
};

/// The places of the maxima of neighbouring channels, in memory.
template <class Place, int kWidth>
struct alignas(sizeof(Place) * kWidth) PoolingPlaces {
  Place values[kWidth];
};

/// The maximum of the cells of a window, so far, and its place in the window, counted row by row
/// with the padding. Of equal ones the first wins. It begins as the window's first cell: a NaN
/// there stays, and others are never greater.
template <class Element, int kWidth, class PlaceType>
struct MaximumOfWindow {
  using Values = Channels<kWidth>;
  using Place = PlaceType;
  template <uint32_t kThreads>
  struct Parts {
    float best[kWidth][kThreads];
    uint32_t places[kWidth][kThreads];
  };

  Values best;
  uint32_t places[kWidth];

  POSEIDON_DEVICE MaximumOfWindow(const Values& cell, uint32_t place) : best(cell) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) places[i] = place;
  }
  POSEIDON_DEVICE void take(const Values& cell, uint32_t place) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const bool greater = cell[i] > best[i];
      best[i] = greater ? cell[i] : best[i];
      places[i] = greater ? place : places[i];
    }
  }
  template <uint32_t kThreads>
  POSEIDON_DEVICE void give(Parts<kThreads>& parts, uint32_t thread) const {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      parts.best[i][thread] = best[i];
      parts.places[i][thread] = places[i];
    }
  }
  template <uint32_t kThreads>
  POSEIDON_DEVICE void join(const Parts<kThreads>& parts, uint32_t thread) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float other = parts.best[i][thread];
      const uint32_t place = parts.places[i][thread];
      if (other > best[i] || (other == best[i] && place < places[i])) {
        best[i] = other;
        places[i] = place;
      }
    }
  }
  /// `kept` may be null.
  POSEIDON_DEVICE void finish(float, Element* out, Place* kept) const {
    store_channels<kWidth>(out, best);
    if (kept == nullptr) return;
    PoolingPlaces<Place, kWidth> packed;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) packed.values[i] = static_cast<Place>(places[i]);
    *reinterpret_cast<PoolingPlaces<Place, kWidth>*>(kept) = packed;
  }
};

/// What the two forward kernels have in common: their memory, and how they read a window.
template <class Element, int kWidth, class Method>
struct PoolingForward {
  using Values = Channels<kWidth>;
  using Place = typename Method::Place;

  PoolingPlan plan;
  PoolingSites sites;
  const Element* in;
  Element* out;
  Place* places;  ///< null: they are not kept

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(in, bytes_of_elements<Element>(plan.inputs()));
    visitor.writes(out, bytes_of_elements<Element>(plan.outputs()));
    if (places != nullptr) visitor.writes(places, bytes_of_elements<Place>(plan.outputs()));
  }

  /// One window and a group of channels of it.
  struct Reading {
    PoolingWindow row, column;
    const Element* plane;
    uint32_t channels;
    int32_t width;
    uint32_t kernel_width;

    POSEIDON_DEVICE const Element* at(int32_t y, int32_t x) const {
      return plane + (int64_t{y} * width + x) * channels;
    }
    POSEIDON_DEVICE Values cell(int32_t y, int32_t x) const {
      return load_channels<kWidth>(at(y, x));
    }
    POSEIDON_DEVICE uint32_t place(int32_t y, int32_t x) const {
      return static_cast<uint32_t>(y - row.origin) * kernel_width +
             static_cast<uint32_t>(x - column.origin);
    }
    POSEIDON_DEVICE Method begin() const {
      return Method(cell(row.begin, column.begin), place(row.begin, column.begin));
    }
  };
  POSEIDON_DEVICE Reading reading(const PoolingSite& site) const {
    const int64_t area = int64_t{plan.rows.input} * plan.columns.input;
    return {.row = plan.rows.window(site.y),
            .column = plan.columns.window(site.x),
            .plane = in + site.sample * area * plan.channels + site.group * kWidth,
            .channels = plan.channels,
            .width = plan.columns.input,
            .kernel_width = static_cast<uint32_t>(plan.columns.kernel)};
  }
  /// `index`: of the group among those of the output.
  POSEIDON_DEVICE void finish(const Method& method, const PoolingSite& site, int64_t index) const {
    method.finish(plan.share(site.y, site.x), out + index * kWidth,
                  places == nullptr ? nullptr : places + index * kWidth);
  }
};

/// A thread takes a window.
template <class Element, int kWidth, class Method>
struct PoolingKernel : PoolingForward<Element, kWidth, Method> {
  static constexpr const char* kName = "pooling";
  static constexpr uint32_t kThreads = 256;

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const PoolingPlan& all = this->plan;
    const uint32_t index = thread.block() * kThreads + thread.thread();
    const PoolingSite site = this->sites.site(index);
    if (site.sample >= all.samples) return;
    const auto window = this->reading(site);
    Method method = window.begin();
    for (int32_t y = window.row.begin; y < window.row.end; ++y) {
      const Element* cell = window.at(y, window.column.begin);
#pragma unroll 3
      for (int32_t x = window.column.begin; x < window.column.end; ++x, cell += all.channels)
        method.take(load_channels<kWidth>(cell), window.place(y, x));
    }
    this->finish(method, site, index);
  }
};

/// Windows of many cells: the threads of a block share a window, of kGroups groups of channels.
/// Each takes every kSplits-th cell; then they join theirs in pairs, in a fixed order.
template <class Element, int kWidth, class Method>
struct LargePoolingKernel : PoolingForward<Element, kWidth, Method> {
  static constexpr const char* kName = "pooling of large windows";
  static constexpr uint32_t kThreads = 256, kGroups = 8;
  static constexpr int32_t kSplits = kThreads / kGroups;
  using Shared = typename Method::template Parts<kThreads>;

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared& shared) const {
    const PoolingPlan& all = this->plan;
    const uint32_t groups = all.channels / kWidth;
    PoolingSite site = this->sites.site(thread.block());
    site.group = site.group * kGroups + thread.thread() % kGroups;
    const bool is_inside = site.group < groups;
    if (!is_inside) site.group = 0;  // it takes part, and writes nothing
    const auto window = this->reading(site);
    Method method = window.begin();
    const int32_t width = window.column.end - window.column.begin;
    const auto part = static_cast<int32_t>(thread.thread() / kGroups);
    int32_t y = window.row.begin + part / width, x = window.column.begin + part % width;
    // From one cell to the next: so many rows and columns, and a row more past the last column.
    const int32_t rows = kSplits / width, columns = kSplits % width;
    while (y < window.row.end) {
      method.take(window.cell(y, x), window.place(y, x));
      y += rows;
      x += columns;
      if (x < window.column.end) continue;
      x -= width;
      ++y;
    }
    for (uint32_t apart = kThreads / 2; apart >= kGroups; apart /= 2) {
      if (thread.thread() < 2 * apart) method.give(shared, thread.thread());
      thread.synchronize();
      if (thread.thread() < apart) method.join(shared, thread.thread() + apart);
      thread.synchronize();
    }
    if (is_inside && thread.thread() < kGroups)
      this->finish(method, site,
                   int64_t{this->sites.groups.quotient(thread.block())} * groups + site.group);
  }
};

/// A thread gathers the gradient of a group of channels of a cell from the windows that hold it, in
/// their order.
template <class Element, int kWidth>
struct PoolingBackward {
  static constexpr uint32_t kThreads = 256;
  using Values = Channels<kWidth>;

  PoolingPlan plan;
  PoolingSites sites;
  const Element* gradient;  ///< of the output
  Element* target;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(gradient, bytes_of_elements<Element>(plan.outputs()));
    visitor.writes(target, bytes_of_elements<Element>(plan.inputs()));
  }

  /// add(sum, row and column of the window, offset of its channels in the output, the cell)
  template <class Add>
  POSEIDON_DEVICE void gather(const Thread& thread, const Add& add) const {
    const uint32_t index = thread.block() * kThreads + thread.thread();
    const PoolingSite site = sites.site(index);
    if (site.sample >= plan.samples) return;
    Values sum{};
    const int32_t bottom = plan.rows.end_holding(site.y);
    const int32_t right = plan.columns.end_holding(site.x);
    const int32_t left = plan.columns.first_holding(site.x);
    for (int32_t row = plan.rows.first_holding(site.y); row < bottom; ++row) {
      const int64_t line = (int64_t{site.sample} * plan.rows.output + row) * plan.columns.output;
      int64_t offset = (line + left) * plan.channels + site.group * kWidth;
#pragma unroll 1
      for (int32_t column = left; column < right; ++column, offset += plan.channels)
        add(sum, row, column, offset, site);
    }
    store_channels<kWidth>(target + int64_t{index} * kWidth, sum);
  }
};

template <class Element, int kWidth>
struct MeanPoolingBackwardKernel : PoolingBackward<Element, kWidth> {
  static constexpr const char* kName = "gradient of mean pooling";

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    this->gather(
        thread, [this](auto& sum, int32_t row, int32_t column, int64_t offset, const PoolingSite&) {
          const float share = this->plan.share(row, column);
          const auto values = load_channels<kWidth>(this->gradient + offset);
#pragma unroll
          for (int i = 0; i < kWidth; ++i) sum[i] += values[i] * share;
        });
  }
};

template <class Element, int kWidth, class Place>
struct MaximumPoolingBackwardKernel : PoolingBackward<Element, kWidth> {
  static constexpr const char* kName = "gradient of max pooling";

  const Place* places;

  void visit(MemoryVisitor& visitor) const {
    PoolingBackward<Element, kWidth>::visit(visitor);
    visitor.reads(places, bytes_of_elements<Place>(this->plan.outputs()));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    this->gather(thread, [this](auto& sum, int32_t row, int32_t column, int64_t offset,
                                const PoolingSite& site) {
      const PoolingAxis &rows = this->plan.rows, &columns = this->plan.columns;
      const int32_t y = site.y - rows.origin(row);
      const int32_t x = site.x - columns.origin(column);
      const auto here = static_cast<Place>(y * columns.kernel + x);
      const auto winners = *reinterpret_cast<const PoolingPlaces<Place, kWidth>*>(places + offset);
      const auto values = load_channels<kWidth>(this->gradient + offset);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sum[i] += winners.values[i] == here ? values[i] : 0;
    });
  }
};

/// From this many cells on, the threads of a block share a window.
constexpr int64_t kLargeWindow = 32;

class CudaPooling final : public CudaLayer {
 public:
  CudaPooling(const LayerRequest& request, CudaDevice& device)
      : CudaLayer(request, device),
        pooling_(static_cast<const Pooling&>(request.definition)),
        plan_(plan_of(pooling_)),
        cells_(pooling_.kernel[0] * pooling_.kernel[1]) {
    if (!is_max() || !request.training) return;
    if (cells_ > UINT16_MAX)
      throw ConfigError(text("[pooling '", name_, "'] windows of more than ", UINT16_MAX,
                             " cells cannot be trained"));
    // The place of each maximum: reading one for each window that holds a cell is much less than
    // reading all the cells of these windows again, and the input need not be kept.
    needs_.workspace_bytes = static_cast<size_t>(plan_.outputs()) *
                             (has_small_places() ? sizeof(uint8_t) : sizeof(uint16_t));
  }

  void forward(const StepContext&, const Bindings& memory) override {
    with_kernels([&](auto element, auto width, auto place) {
      using Element = decltype(element);
      using Place = decltype(place);
      if (is_max())
        launch_forward<Element, width, MaximumOfWindow<Element, width, Place>>(memory);
      else
        launch_forward<Element, width, MeanOfWindow<Element, width>>(memory);
    });
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    const Tensor& gradient = combined_gradient(device_, memory, std::nullopt);
    with_kernels([&](auto element, auto width, auto place) {
      using Element = decltype(element);
      using Place = decltype(place);
      const PoolingBackward<Element, width> common{
          .plan = plan_,
          .sites = {plan_.channels / width, plan_.rows.input, plan_.columns.input},
          .gradient = gradient.as<Element>(),
          .target = memory.input_gradients[0].as<Element>()};
      const int64_t threads = plan_.inputs() / width;
      if (is_max())
        device_.launch_for(threads,
                           MaximumPoolingBackwardKernel<Element, width, Place>{
                               {common}, reinterpret_cast<const Place*>(memory.workspace)});
      else
        device_.launch_for(threads, MeanPoolingBackwardKernel<Element, width>{{common}});
    });
  }

 private:
  bool is_max() const { return pooling_.method == PoolingMethod::kMax; }
  /// Whether a place in a window fits into a byte.
  bool has_small_places() const { return cells_ <= UINT8_MAX + 1; }

  /// Calls use() with an element, with the number of channels that a thread takes, as a constant,
  /// and with a place.
  template <class Use>
  void with_kernels(const Use& use) const {
    with_element_of(needs_.output_format.type, [&](auto element) {
      with_channels_of<decltype(element)>(plan_.channels, [&](auto width) {
        if (has_small_places())
          use(element, width, uint8_t{});
        else
          use(element, width, uint16_t{});
      });
    });
  }

  template <class Element, int kWidth, class Method>
  void launch_forward(const Bindings& memory) {
    using Direct = PoolingKernel<Element, kWidth, Method>;
    using Large = LargePoolingKernel<Element, kWidth, Method>;
    const bool keeps_places = needs_.workspace_bytes > 0, is_large = cells_ >= kLargeWindow;
    const int64_t groups = plan_.channels / kWidth;
    const int64_t across = is_large ? (groups + Large::kGroups - 1) / Large::kGroups : groups;
    const PoolingForward<Element, kWidth, Method> common{
        .plan = plan_,
        .sites = {across, plan_.rows.output, plan_.columns.output},
        .in = memory.inputs[0].as<Element>(),
        .out = memory.output.as<Element>(),
        .places =
            keeps_places ? reinterpret_cast<typename Method::Place*>(memory.workspace) : nullptr};
    const int64_t sites = plan_.outputs() / plan_.channels * across;
    if (is_large)
      device_.launch(Large{{common}}, {.blocks = static_cast<uint32_t>(sites)});
    else
      device_.launch_for(sites, Direct{{common}});
  }

  const Pooling& pooling_;
  const PoolingPlan plan_;
  const int64_t cells_;  ///< of a window
};

}  // namespace

std::unique_ptr<Layer> make_pooling(const LayerRequest& request, const Making& making) {
  return std::make_unique<CudaPooling>(request, making.device);
}

}  // namespace poseidon::layers::cuda
