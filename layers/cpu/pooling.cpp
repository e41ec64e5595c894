#include "layers/pooling.h"

#include "core/error.h"
#include "layers/cpu/cpu_layer.h"

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

/// Own kernels rather than oneDNN's: one form for every layout, Caffe's divisor, and a backward
/// pass that writes each input gradient once. The lanes of a channel block are the vector.
class CpuPooling final : public CpuLayer {
 public:
  CpuPooling(const LayerRequest& request, CpuDevice& device)
      : CpuLayer(request, device),
        pooling_(static_cast<const Pooling&>(request.definition)),
        rows_(windows(pooling_, 0)),
        columns_(windows(pooling_, 1)) {
    needs_.input_layouts = {needs_.output_layout};
    if (is_max() && request.training) {
      if (pooling_.kernel[0] * pooling_.kernel[1] > UINT16_MAX)
        throw ConfigError(text("[pooling '", name_, "'] windows of more than ", UINT16_MAX,
                               " cells cannot be trained"));
      // The place of each maximum within its window.
      const Blocking out(pooling_.output, needs_.output_layout);
      needs_.workspace_bytes = static_cast<size_t>(out.count()) * sizeof(uint16_t);
    }
  }

  void forward(const StepContext&, const Bindings& memory) override {
    const Blocking in = memory.inputs[0].blocking(), out = memory.output.blocking();
    auto* places = reinterpret_cast<uint16_t*>(memory.workspace);
    const int64_t planes = in.samples * in.blocks;
    const float* source = memory.inputs[0].data;
    float* target = memory.output.data;
#pragma omp parallel for schedule(static)
    for (int64_t plane = 0; plane < planes; ++plane) {
      const float* from = source + plane * in.area * in.block;
      float* to = target + plane * out.area * out.block;
      if (!is_max())
        average_plane(from, to, in.block);
      else
        max_plane(from, to, places == nullptr ? nullptr : places + plane * out.area * out.block,
                  in.block);
    }
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    const float* gradient = combined_gradient(memory, std::nullopt);
    const Blocking in = memory.input_gradients[0].blocking(),
                   out = memory.output_gradients[0].blocking();
    const auto* places = reinterpret_cast<const uint16_t*>(memory.workspace);
    const int64_t planes = in.samples * in.blocks;
    float* target = memory.input_gradients[0].data;
#pragma omp parallel for schedule(static)
    for (int64_t plane = 0; plane < planes; ++plane) {
      const float* from = gradient + plane * out.area * out.block;
      float* to = target + plane * in.area * in.block;
      std::fill_n(to, in.area * in.block, 0.0f);
      if (is_max())
        spread_max(from, places + plane * out.area * out.block, to, in.block);
      else
        spread_average(from, to, in.block);
    }
  }

 private:
  bool is_max() const { return pooling_.method == PoolingMethod::kMax; }

  /// Calls each(output cell, row window, column window) for every window of a plane.
  template <class Each>
  void for_each_window(const Each& each) const {
    int64_t cell = 0;
    for (const Window& row : rows_)
      for (const Window& column : columns_) each(cell++, row, column);
  }

  /// The kernels take the number of lanes as a constant where it is the usual one, so that the loop
  /// over them is one vector instruction.
  template <class Kernel>
  static void with_lanes(int64_t lanes, const Kernel& kernel) {
    if (lanes == 16) return kernel(std::integral_constant<int64_t, 16>{});
    if (lanes == 8) return kernel(std::integral_constant<int64_t, 8>{});
    kernel(lanes);
  }

  void max_plane(const float* from, float* to, uint16_t* places, int64_t block) const {
    with_lanes(block, [&](auto lanes) {
      for_each_window([&](int64_t cell, const Window& row, const Window& column) {
        max_window(from, to + cell * lanes, places == nullptr ? nullptr : places + cell * lanes,
                   row, column, lanes);
      });
    });
  }

  template <class Lanes>
  void max_window(const float* from, float* best, uint16_t* place, const Window& row,
                  const Window& column, Lanes lanes) const {
    const int64_t width = pooling_.input.width();
    const float* first = from + (row.begin * width + column.begin) * lanes;
    for (int64_t lane = 0; lane < lanes; ++lane) best[lane] = first[lane];
    if (place != nullptr)
      for (int64_t lane = 0; lane < lanes; ++lane) place[lane] = 0;
    for (int64_t y = row.begin; y < row.end; ++y) {
      for (int64_t x = column.begin; x < column.end; ++x) {
        const float* cell = from + (y * width + x) * lanes;
        const auto here = static_cast<uint16_t>((y - row.begin) * (column.end - column.begin) +
                                                (x - column.begin));
        if (place == nullptr) {
#pragma omp simd
          for (int64_t lane = 0; lane < lanes; ++lane)
            best[lane] = cell[lane] > best[lane] ? cell[lane] : best[lane];
        } else {
#pragma omp simd
          for (int64_t lane = 0; lane < lanes; ++lane) {
            const bool greater = cell[lane] > best[lane];
            best[lane] = greater ? cell[lane] : best[lane];
            place[lane] = greater ? here : place[lane];
          }
        }
      }
    }
  }

  void spread_max(const float* from, const uint16_t* places, float* to, int64_t block) const {
    const int64_t width = pooling_.input.width();
    with_lanes(block, [&](auto lanes) {
      for_each_window([&](int64_t cell, const Window& row, const Window& column) {
        const float* gradient = from + cell * lanes;
        const uint16_t* place = places + cell * lanes;
        for (int64_t y = row.begin; y < row.end; ++y) {
          for (int64_t x = column.begin; x < column.end; ++x) {
            float* target = to + (y * width + x) * lanes;
            const auto here = static_cast<uint16_t>((y - row.begin) * (column.end - column.begin) +
                                                    (x - column.begin));
#pragma omp simd
            for (int64_t lane = 0; lane < lanes; ++lane)
              target[lane] += place[lane] == here ? gradient[lane] : 0.0f;
          }
        }
      });
    });
  }

  void average_plane(const float* from, float* to, int64_t block) const {
    const int64_t width = pooling_.input.width();
    with_lanes(block, [&](auto lanes) {
      for_each_window([&](int64_t cell, const Window& row, const Window& column) {
        float* sum = to + cell * lanes;
        for (int64_t lane = 0; lane < lanes; ++lane) sum[lane] = 0;
        for (int64_t y = row.begin; y < row.end; ++y)
          for (int64_t x = column.begin; x < column.end; ++x)
#pragma omp simd
            for (int64_t lane = 0; lane < lanes; ++lane)
              sum[lane] += from[(y * width + x) * lanes + lane];
        const float share = 1 / static_cast<float>(row.whole * column.whole);
        for (int64_t lane = 0; lane < lanes; ++lane) sum[lane] *= share;
      });
    });
  }

  void spread_average(const float* from, float* to, int64_t block) const {
    const int64_t width = pooling_.input.width();
    with_lanes(block, [&](auto lanes) {
      for_each_window([&](int64_t cell, const Window& row, const Window& column) {
        const float share = 1 / static_cast<float>(row.whole * column.whole);
        for (int64_t y = row.begin; y < row.end; ++y)
          for (int64_t x = column.begin; x < column.end; ++x)
#pragma omp simd
            for (int64_t lane = 0; lane < lanes; ++lane)
              to[(y * width + x) * lanes + lane] += share * from[cell * lanes + lane];
      });
    });
  }

  const Pooling& pooling_;
  std::vector<Window> rows_, columns_;
};

}  // namespace

std::unique_ptr<Layer> make_pooling(const LayerRequest& request, CpuDevice& device) {
  return std::make_unique<CpuPooling>(request, device);
}

}  // namespace poseidon::layers::cpu
