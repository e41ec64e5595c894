#include "layers/pooling.h"

#include "core/error.h"
#include "layers/cpu/cpu_layer.h"
#include "layers/cpu/vectors.h"

namespace poseidon::layers::cpu {

namespace {

/// Windows over one axis: output o covers input cells [begin, end) after clipping, and `whole`
/// cells of the padded input, which the average divides by.
struct Window {
  int64_t begin, end, whole;
};

std::vector<Window> windows(const Pooling& pooling, int axis) {
  const auto i = static_cast<size_t>(axis);
  const int64_t size = pooling.input[2 + axis];
  std::vector<Window> out;
  for (int64_t o = 0; o < pooling.output[2 + axis]; ++o) {
    if (pooling.is_even()) {
      const EvenWindows even = pooling.even_windows(axis);
      out.push_back({even.begin(o), even.end(o), even.end(o) - even.begin(o)});
      continue;
    }
    const int64_t begin = o * pooling.stride[i] - pooling.padding[i];
    const int64_t end = std::min(begin + pooling.kernel[i], size + pooling.padding[i]);
    out.push_back({std::max<int64_t>(begin, 0), std::min(end, size), end - begin});
  }
  return out;
}

template <class Element, class Vector>
void add(Element* memory, const Vector& vector) {
  store(memory, load<Vector>(memory) + vector);
}

/// One plane of input: where its cell (y, x) begins, and how many lanes a cell has.
struct Plane {
  int64_t width, lanes;
  int64_t offset(int64_t y, int64_t x) const { return (y * width + x) * lanes; }
};

template <int kLanes, class Element>
void max_window(const Element* from, const Plane& plane, const Window& row, const Window& column,
                Element* to, uint16_t* places) {
  using Float = typename Vectors<kLanes>::Float;
  using Int = typename Vectors<kLanes>::Int;
  Float best = load<Float>(from + plane.offset(row.begin, column.begin));
  Int where{}, here{};
  for (int64_t y = row.begin; y < row.end; ++y) {
    for (int64_t x = column.begin; x < column.end; ++x, here += 1) {
      const Float cell = load<Float>(from + plane.offset(y, x));
      const Int greater = cell > best;
      best = greater ? cell : best;
      where = greater ? here : where;
    }
  }
  store<Float>(to, best);
  using Place = typename Vectors<kLanes>::Place;
  if (places != nullptr) store(places, __builtin_convertvector(where, Place));
}

template <int kLanes, class Element>
void spread_taken(const Element* gradient, const uint16_t* places, const Plane& plane,
                  const Window& row, const Window& column, Element* to) {
  using Float = typename Vectors<kLanes>::Float;
  using Int = typename Vectors<kLanes>::Int;
  const Float value = load<Float>(gradient);
  const Int where = __builtin_convertvector(load<typename Vectors<kLanes>::Place>(places), Int);
  Int here{};
  for (int64_t y = row.begin; y < row.end; ++y)
    for (int64_t x = column.begin; x < column.end; ++x, here += 1)
      add(to + plane.offset(y, x), where == here ? value : Float{});
}

template <int kLanes, class Element>
typename Vectors<kLanes>::Float sum_of_window(const Element* from, const Plane& plane,
                                              const Window& row, const Window& column) {
  typename Vectors<kLanes>::Float sum{};
  for (int64_t y = row.begin; y < row.end; ++y)
    for (int64_t x = column.begin; x < column.end; ++x)
      sum += load<typename Vectors<kLanes>::Float>(from + plane.offset(y, x));
  return sum;
}

template <int kLanes, class Element>
void average_window(const Element* from, const Plane& plane, const Window& row,
                    const Window& column, Element* to) {
  using Float = typename Vectors<kLanes>::Float;
  const Float sum = sum_of_window<kLanes>(from, plane, row, column);
  store<Float>(to, sum * (1 / static_cast<float>(row.whole * column.whole)));
}

template <int kLanes, class Element>
void spread_average(const Element* gradient, const Plane& plane, const Window& row,
                    const Window& column, Element* to) {
  using Float = typename Vectors<kLanes>::Float;
  const Float value = load<Float>(gradient) * (1 / static_cast<float>(row.whole * column.whole));
  for (int64_t y = row.begin; y < row.end; ++y)
    for (int64_t x = column.begin; x < column.end; ++x) add(to + plane.offset(y, x), value);
}

/// The chances of neighbouring channels, from the one on whose output is `element`.
template <int kLanes>
typename Vectors<kLanes>::Float chances(const RandomStream& random, int64_t element) {
  constexpr int kBlocks = (kLanes + 3 + 3) / 4;
  float values[4 * kBlocks];
  for (int b = 0; b < kBlocks; ++b) {
    const PhiloxBlock words = random.at(static_cast<uint64_t>(element / 4 + b));
    for (size_t i = 0; i < 4; ++i)
      values[static_cast<size_t>(4 * b) + i] = Pooling::chance(words[i]);
  }
  return load<typename Vectors<kLanes>::Float>(values + element % 4);
}

/// The cell at which the sum so far reaches the chance's share of the whole; else the last one.
template <int kLanes, class Element>
void choose_from_window(const Element* from, const Plane& plane, const Window& row,
                        const Window& column, const typename Vectors<kLanes>::Float& chance,
                        Element* to, uint16_t* places) {
  using Float = typename Vectors<kLanes>::Float;
  using Int = typename Vectors<kLanes>::Int;
  const Float wanted = chance * sum_of_window<kLanes>(from, plane, row, column);
  Float sum{}, chosen{};
  Int where{}, here{}, is_reached{};
  for (int64_t y = row.begin; y < row.end; ++y) {
    for (int64_t x = column.begin; x < column.end; ++x, here += 1) {
      const Float cell = load<Float>(from + plane.offset(y, x));
      chosen = is_reached ? chosen : cell;
      where = is_reached ? where : here;
      sum += cell;
      is_reached |= sum >= wanted;
    }
  }
  store<Float>(to, chosen);
  using Place = typename Vectors<kLanes>::Place;
  if (places != nullptr) store(places, __builtin_convertvector(where, Place));
}

/// The mean that choose_from_window() has in the long run.
template <int kLanes, class Element>
void weigh_window(const Element* from, const Plane& plane, const Window& row, const Window& column,
                  Element* to) {
  using Float = typename Vectors<kLanes>::Float;
  const Float sum = sum_of_window<kLanes>(from, plane, row, column);
  Float squares{};
  for (int64_t y = row.begin; y < row.end; ++y)
    for (int64_t x = column.begin; x < column.end; ++x) {
      const Float cell = load<Float>(from + plane.offset(y, x));
      squares += cell * cell;
    }
  store<Float>(to, sum > Float{} ? squares / sum : Float{});
}

/// Calls body(number of lanes, as a constant; first lane) for groups of 16, 8 and single lanes.
template <class Body>
void for_each_lane_group(int64_t lanes, const Body& body) {
  int64_t lane = 0;
  for (; lane + 16 <= lanes; lane += 16) body(std::integral_constant<int, 16>{}, lane);
  for (; lane + 8 <= lanes; lane += 8) body(std::integral_constant<int, 8>{}, lane);
  for (; lane < lanes; ++lane) body(std::integral_constant<int, 1>{}, lane);
}

/// Own kernels rather than oneDNN's: one form for every layout, Caffe's divisor, and the
/// place of what is taken of a window in two bytes.
template <class Element>
class CpuPooling final : public CpuLayer {
 public:
  CpuPooling(const LayerRequest& request, CpuDevice& device)
      : CpuLayer(request, device),
        pooling_(static_cast<const Pooling&>(request.definition)),
        rows_(windows(pooling_, 0)),
        columns_(windows(pooling_, 1)) {
    needs_.input_formats = {needs_.output_format};
    if (pooling_.takes_one_cell() && request.training) {
      if (pooling_.kernel[0] * pooling_.kernel[1] > UINT16_MAX)
        throw ConfigError(text("[pooling '", name_, "'] windows of more than ", UINT16_MAX,
                               " cells cannot be trained"));
      // The place of what is taken within its window.
      const Blocking out(pooling_.output, needs_.output_format.layout);
      needs_.workspace_bytes = static_cast<size_t>(out.count()) * sizeof(uint16_t);
    }
  }

  void forward(const StepContext& step, const Bindings& memory) override {
    switch (pooling_.method) {
      case PoolingMethod::kMax: return take_maxima(memory);
      case PoolingMethod::kAverage: return take_means(memory);
      case PoolingMethod::kStochastic:
        return step.phase == Phase::kTrain ? take_by_chance(step, memory) : take_weighted(memory);
    }
  }

  void backward(const StepContext& step, const Bindings& memory) override {
    check(pooling_.has_gradient(step.phase), "the gradient of a pooling that has one");
    if (!memory.input_gradients[0]) return;
    const auto* gradient = combined_gradient(memory, std::nullopt).as<Element>();
    auto* target = memory.input_gradients[0].as<Element>();
    const auto* places = reinterpret_cast<const uint16_t*>(memory.workspace);
    const int64_t cells = pooling_.input.area() * memory.output.blocking().block;
    for_each_plane(memory.output, [&](const Plane& plane, const PlanePlace& at) {
      std::fill_n(target + at.in, cells, Element(0.0F));
      for_each_window(plane, [&](auto lanes, int64_t lane, const Cell& cell) {
        const int64_t out = at.out + cell.index * plane.lanes + lane;
        if (pooling_.takes_one_cell())
          spread_taken<lanes>(gradient + out, places + out, plane, cell.row, cell.column,
                              target + at.in + lane);
        else
          spread_average<lanes>(gradient + out, plane, cell.row, cell.column,
                                target + at.in + lane);
      });
    });
  }

 private:
  /// One channel block of one sample: where it begins in the input and in the output.
  struct PlanePlace {
    int64_t in, out, sample, channel;
  };
  /// One output of a plane, and its window.
  struct Cell {
    int64_t index;
    const Window &row, &column;
  };

  /// One window of neighbouring channels, and where goes what is taken of it.
  struct Taking {
    const Element* from;
    const Plane& plane;
    const Window &row, &column;
    Element* to;
    uint16_t* places;         ///< null: they are not kept
    int64_t sample, element;  ///< element: as Pooling::stream_of() counts
  };

  /// Calls take(lanes, as a constant; a Taking).
  template <class Take>
  void take_from_windows(const Bindings& memory, const Take& take) const {
    const auto* input = memory.inputs[0].as<Element>();
    auto* output = memory.output.as<Element>();
    auto* places = reinterpret_cast<uint16_t*>(memory.workspace);
    for_each_plane(memory.output, [&](const Plane& plane, const PlanePlace& at) {
      for_each_window(plane, [&](auto lanes, int64_t lane, const Cell& cell) {
        const int64_t out = at.out + cell.index * plane.lanes + lane;
        take(lanes, Taking{.from = input + at.in + lane,
                           .plane = plane,
                           .row = cell.row,
                           .column = cell.column,
                           .to = output + out,
                           .places = places == nullptr ? nullptr : places + out,
                           .sample = at.sample,
                           .element = cell.index * pooling_.output.channels() + at.channel + lane});
      });
    });
  }

  void take_maxima(const Bindings& memory) const {
    take_from_windows(memory, [](auto lanes, const Taking& t) {
      max_window<lanes>(t.from, t.plane, t.row, t.column, t.to, t.places);
    });
  }

  void take_means(const Bindings& memory) const {
    take_from_windows(memory, [](auto lanes, const Taking& t) {
      average_window<lanes>(t.from, t.plane, t.row, t.column, t.to);
    });
  }

  void take_by_chance(const StepContext& step, const Bindings& memory) const {
    const uint64_t key = random_key(name_);
    take_from_windows(memory, [&](auto lanes, const Taking& t) {
      const RandomStream random = Pooling::stream_of(*step.numbers, key, t.sample);
      choose_from_window<lanes>(t.from, t.plane, t.row, t.column, chances<lanes>(random, t.element),
                                t.to, t.places);
    });
  }

  void take_weighted(const Bindings& memory) const {
    take_from_windows(memory, [](auto lanes, const Taking& t) {
      weigh_window<lanes>(t.from, t.plane, t.row, t.column, t.to);
    });
  }

  /// Calls each(plane, its place) for every channel block of every sample.
  template <class Each>
  void for_each_plane(const Tensor& output, const Each& each) const {
    const Blocking out = output.blocking();
    const int64_t planes = out.samples * out.blocks, in_area = pooling_.input.area();
    const Plane plane{pooling_.input.width(), out.block};
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < planes; ++i)
      each(plane, PlanePlace{i * in_area * out.block, i * out.area * out.block, i / out.blocks,
                             i % out.blocks * out.block});
  }

  /// Calls each(number of lanes, as a constant; first lane; cell) for every window of a plane.
  template <class Each>
  void for_each_window(const Plane& plane, const Each& each) const {
    int64_t index = 0;
    for (const Window& row : rows_)
      for (const Window& column : columns_) {
        const Cell cell{index++, row, column};
        for_each_lane_group(plane.lanes,
                            [&](auto lanes, int64_t lane) { each(lanes, lane, cell); });
      }
  }

  const Pooling& pooling_;
  std::vector<Window> rows_, columns_;
};

}  // namespace

std::unique_ptr<Layer> make_pooling(const LayerRequest& request, CpuDevice& device) {
  return make_for_element_of<CpuPooling>(request.input_formats[0], request, device);
}

}  // namespace poseidon::layers::cpu
