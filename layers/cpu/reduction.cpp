#include "layers/reduction.h"

#include <cmath>

#include "layers/cpu/elementwise.h"

namespace poseidon::layers::cpu {

namespace {

struct PlainSum {
  static float term(float x) { return x; }
};
struct AbsoluteSum {
  static float term(float x) { return std::fabs(x); }
  static float derivative(float x) { return x > 0 ? 1.0F : x < 0 ? -1.0F : 0.0F; }
};
struct SumOfSquares {
  static float term(float x) { return x * x; }
  static float derivative(float x) { return 2 * x; }
};

/// The sum of the terms of `count` elements. The order of the additions depends only on `count`.
template <class Operation, class Element>
double sum_of_terms(const Element* from, int64_t count) {
  constexpr int64_t kLanes = 16;
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
#pragma omp simd
    for (int64_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] += static_cast<double>(Operation::term(from[i + lane]));
  for (int64_t lane = 0; i + lane < count; ++lane)
    lanes[lane] += static_cast<double>(Operation::term(from[i + lane]));
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

/// Sums all stored elements of a sample, including padding lanes, which are zero.
template <class Element>
class CpuReduction final : public CpuLayer {
 public:
  CpuReduction(const LayerRequest& request, CpuDevice& device)
      : CpuLayer(request, device), reduction_(static_cast<const Reduction&>(request.definition)) {
    needs_.output_format = kPlainFp32;
    needs_.backward_reads_inputs = !reduction_.is_linear();
  }

  void forward(const StepContext&, const Bindings& memory) override {
    switch (reduction_.operation) {
      case ReductionOperation::kSum:
      case ReductionOperation::kMean: return reduce<PlainSum>(memory);
      case ReductionOperation::kAbsoluteSum: return reduce<AbsoluteSum>(memory);
      case ReductionOperation::kSquares: return reduce<SumOfSquares>(memory);
    }
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    const auto* gradient = combined_gradient(team(), memory, std::nullopt).template as<float>();
    const auto* input = memory.inputs[0].as<Element>();
    switch (reduction_.operation) {
      case ReductionOperation::kSum:
      case ReductionOperation::kMean: spread(memory, gradient, [](int64_t) { return 1.0F; }); break;
      case ReductionOperation::kAbsoluteSum:
        spread(memory, gradient, [=](int64_t i) { return AbsoluteSum::derivative(input[i]); });
        break;
      case ReductionOperation::kSquares:
        spread(memory, gradient, [=](int64_t i) { return SumOfSquares::derivative(input[i]); });
        break;
    }
    clear_padding(team(), memory.input_gradients[0]);
  }

 private:
  template <class Operation>
  void reduce(const Bindings& memory) const {
    const Blocking b = memory.inputs[0].blocking();
    const int64_t count = b.count() / b.samples;
    const auto* in = memory.inputs[0].as<Element>();
    auto* out = memory.output.as<float>();
    const auto factor = static_cast<double>(reduction_.factor());
    for_each_item(team(), b.samples, count, [&](int64_t n) {
      out[n] = static_cast<float>(factor * sum_of_terms<Operation>(in + n * count, count));
    });
  }

  template <class Derivative>
  void spread(const Bindings& memory, const float* gradient, const Derivative& derivative) const {
    const Blocking b = memory.input_gradients[0].blocking();
    const int64_t count = b.count() / b.samples;
    auto* target = memory.input_gradients[0].as<Element>();
    const float factor = reduction_.factor();
    for_each_item(team(), b.samples, count, [&, target, factor](int64_t n) {
      const float share = gradient[n] * factor;
      const Derivative by_element = derivative;
#pragma omp simd
      for (int64_t i = n * count; i < (n + 1) * count; ++i) target[i] = share * by_element(i);
    });
  }

  const Reduction& reduction_;
};

}  // namespace

std::unique_ptr<Layer> make_reduction(const LayerRequest& request, CpuDevice& device) {
  return make_for_element_of<CpuReduction>(request.input_formats[0], request, device);
}

}  // namespace poseidon::layers::cpu
