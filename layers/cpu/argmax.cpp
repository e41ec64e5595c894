#include "layers/argmax.h"

#include <cmath>
#include <numeric>

#include "layers/cpu/elementwise.h"

namespace poseidon::layers::cpu {

namespace {

class CpuArgmax final : public CpuLayer {
 public:
  CpuArgmax(const LayerRequest& request, CpuDevice& device)
      : CpuLayer(request, device), argmax_(static_cast<const Argmax&>(request.definition)) {
    needs_.input_formats = {kPlainFp32};
    needs_.output_format = kPlainFp32;
  }

  void forward(const StepContext&, const Bindings& memory) override {
    const int64_t samples = argmax_.input.samples(), count = argmax_.input.sample_count();
    const int64_t width = memory.output.shape.channels();
    team().run_ranges(samples, 1, [&](int64_t first, int64_t end, int) {
      std::vector<int32_t> places(static_cast<size_t>(count));
      for (int64_t n = first; n < end; ++n)
        find(memory.inputs[0].as<float>() + n * count, places,
             memory.output.as<float>() + n * width);
    });
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (memory.input_gradients[0]) clear(team(), memory.input_gradients[0]);
  }

 private:
  void find(const float* sample, std::vector<int32_t>& places, float* out) const {
    std::iota(places.begin(), places.end(), 0);
    const auto comes_first = [sample](int32_t a, int32_t b) {
      const bool no_a = std::isnan(sample[a]), no_b = std::isnan(sample[b]);
      if (no_a != no_b) return no_b;
      return no_a || sample[a] == sample[b] ? a < b : sample[a] > sample[b];
    };
    std::partial_sort(places.begin(), places.begin() + argmax_.top_k, places.end(), comes_first);
    for (int64_t k = 0; k < argmax_.top_k; ++k) {
      const int32_t place = places[static_cast<size_t>(k)];
      out[k] = static_cast<float>(place);
      if (argmax_.values) out[argmax_.top_k + k] = sample[place];
    }
  }

  const Argmax& argmax_;
};

}  // namespace

std::unique_ptr<Layer> make_argmax(const LayerRequest& request, CpuDevice& device) {
  return std::make_unique<CpuArgmax>(request, device);
}

}  // namespace poseidon::layers::cpu
