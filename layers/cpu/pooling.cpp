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
void spread_max(const Element* gradient, const uint16_t* places, const Plane& plane,
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
void average_window(const Element* from, const Plane& plane, const Window& row,
                    const Window& column, Element* to) {
  using Float = typename Vectors<kLanes>::Float;
  Float sum{};
  for (int64_t y = row.begin; y < row.end; ++y)
    for (int64_t x = column.begin; x < column.end; ++x)
      sum += load<Float>(from + plane.offset(y, x));
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

/// Calls body(number of lanes, as a constant; first lane) for groups of 16, 8 and single lanes.
template <class Body>
void for_each_lane_group(int64_t lanes, const Body& body) {
  int64_t lane = 0;
  for (; lane + 16 <= lanes; lane += 16) body(std::integral_constant<int, 16>{}, lane);
  for (; lane + 8 <= lanes; lane += 8) body(std::integral_constant<int, 8>{}, lane);
  for (; lane < lanes; ++lane) body(std::integral_constant<int, 1>{}, lane);
}

/// Own kernels rather than oneDNN's: one form for every layout, Caffe's divisor, and maxima that
/// keep the place of the winner in two bytes.
template <class Element>
class CpuPooling final : public CpuLayer {
 public:
  CpuPooling(const LayerRequest& request, CpuDevice& device)
      : CpuLayer(request, device),
        pooling_(static_cast<const Pooling&>(request.definition)),
        rows_(windows(pooling_, 0)),
        columns_(windows(pooling_, 1)) {
    needs_.input_formats = {needs_.output_format};
    if (is_max() && request.training) {
      if (pooling_.kernel[0] * pooling_.kernel[1] > UINT16_MAX)
        throw ConfigError(text("[pooling '", name_, "'] windows of more than ", UINT16_MAX,
                               " cells cannot be trained"));
      // The place of each maximum within its window.
      const Blocking out(pooling_.output, needs_.output_format.layout);
      needs_.workspace_bytes = static_cast<size_t>(out.count()) * sizeof(uint16_t);
    }
  }

  void forward(const StepContext&, const Bindings& memory) override {
    const auto* input = memory.inputs[0].as<Element>();
    auto* output = memory.output.as<Element>();
    auto* places = reinterpret_cast<uint16_t*>(memory.workspace);
    for_each_plane(
        memory.inputs[0], memory.output, [&](int64_t in, int64_t out, const Plane& plane) {
          for_each_window([&](int64_t cell, const Window& row, const Window& column) {
            for_each_lane_group(plane.lanes, [&](auto lanes, int64_t lane) {
              const int64_t at = out + cell * plane.lanes + lane;
              if (is_max())
                max_window<lanes>(input + in + lane, plane, row, column, output + at,
                                  places == nullptr ? nullptr : places + at);
              else
                average_window<lanes>(input + in + lane, plane, row, column, output + at);
            });
          });
        });
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    const auto* gradient = combined_gradient(memory, std::nullopt).as<Element>();
    auto* target = memory.input_gradients[0].as<Element>();
    const auto* places = reinterpret_cast<const uint16_t*>(memory.workspace);
    for_each_plane(
        memory.input_gradients[0], memory.output, [&](int64_t in, int64_t out, const Plane& plane) {
          std::fill_n(target + in, pooling_.input.area() * plane.lanes, Element(0.0F));
          for_each_window([&](int64_t cell, const Window& row, const Window& column) {
            for_each_lane_group(plane.lanes, [&](auto lanes, int64_t lane) {
              const int64_t at = out + cell * plane.lanes + lane;
              if (is_max())
                spread_max<lanes>(gradient + at, places + at, plane, row, column,
                                  target + in + lane);
              else
                spread_average<lanes>(gradient + at, plane, row, column, target + in + lane);
            });
          });
        });
  }

 private:
  bool is_max() const { return pooling_.method == PoolingMethod::kMax; }

  /// Calls each(offset of the plane in the input, in the output, plane) for every channel block of
  /// every sample.
  template <class Each>
  void for_each_plane(const Tensor& input, const Tensor& output, const Each& each) const {
    const Blocking in = input.blocking(), out = output.blocking();
    const int64_t planes = in.samples * in.blocks;
    const Plane plane{pooling_.input.width(), in.block};
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < planes; ++i)
      each(i * in.area * in.block, i * out.area * out.block, plane);
  }

  /// Calls each(output cell, row window, column window) for every window of a plane.
  template <class Each>
  void for_each_window(const Each& each) const {
    int64_t cell = 0;
    for (const Window& row : rows_)
      for (const Window& column : columns_) each(cell++, row, column);
  }

  const Pooling& pooling_;
  std::vector<Window> rows_, columns_;
};

}  // namespace

std::unique_ptr<Layer> make_pooling(const LayerRequest& request, CpuDevice& device) {
  return make_for_element_of<CpuPooling>(request.input_formats[0], request, device);
}

}  // namespace poseidon::layers::cpu
