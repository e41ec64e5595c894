#include <cmath>

#include "layers/cuda/kernel_name.cuh"
#include "layers/cuda/map.cuh"
#include "layers/function_rules.h"

namespace poseidon::layers::cuda {

namespace {

/// The math functions that the rules of layers/function_rules.h call. GPU code calls CUDA's math
/// library; host code calls the C library.
struct FunctionMath {
  static POSEIDON_ANY_DEVICE float exp(float x) { return ::expf(x); }
  static POSEIDON_ANY_DEVICE float expm1(float x) { return ::expm1f(x); }
  static POSEIDON_ANY_DEVICE float exp_to_the_ends(float x) { return ::expf(x); }
  static POSEIDON_ANY_DEVICE float log(float x) { return ::logf(x); }
  static POSEIDON_ANY_DEVICE float log1p(float x) { return ::log1pf(x); }
  static POSEIDON_ANY_DEVICE float power(float base, const Exponent& exponent) {
    return ::powf(base, exponent.power);
  }
  static POSEIDON_ANY_DEVICE float sigmoid(float x) { return 1 / (1 + ::expf(-x)); }
  static POSEIDON_ANY_DEVICE float tanh(float x) { return ::tanhf(x); }
};

template <class Rule>
struct FunctionForward {
  static constexpr auto kLetters = kernel_name(Rule::kType, " forward");
  static constexpr const char* kName = kLetters.data();
  Rule rule;
  POSEIDON_DEVICE float operator()(float x) const { return rule.template value<FunctionMath>(x); }
};

template <class Rule>
struct FunctionBackward {
  static constexpr auto kLetters = kernel_name(Rule::kType, " backward");
  static constexpr const char* kName = kLetters.data();
  Rule rule;
  POSEIDON_DEVICE float operator()(float g, float seen) const {
    return rule.template gradient<FunctionMath>(g, seen);
  }
};

template <class Rule>
class CudaFunction final : public CudaLayer {
 public:
  CudaFunction(const LayerRequest& request, CudaDevice& device, const Rule& rule)
      : CudaLayer(request, device), rule_(rule) {
    set_function_needs<Rule>(needs_, request.training);
  }

  void forward(const StepContext&, const Bindings& memory) override {
    map(device_, memory.inputs[0], memory.output, FunctionForward<Rule>{rule_});
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    map_gradient(device_, memory, seen(memory), memory.input_gradients[0],
                 FunctionBackward<Rule>{rule_});
  }

 private:
  static Tensor seen(const Bindings& memory) {
    switch (Rule::kReads) {
      case Reads::kNothing: return {};
      case Reads::kInput: return memory.inputs[0];
      case Reads::kOutput: break;
    }
    return memory.output;
  }

  Rule rule_;
};

}  // namespace

std::unique_ptr<Layer> make_function(const LayerRequest& request, const LayerContext& context) {
  return with_rule_of(request.definition, [&](const auto& rule) -> std::unique_ptr<Layer> {
    using Rule = std::remove_cvref_t<decltype(rule)>;
    return std::make_unique<CudaFunction<Rule>>(request, context.device, rule);
  });
}

}  // namespace poseidon::layers::cuda
