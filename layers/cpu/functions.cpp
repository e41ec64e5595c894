#include "layers/cpu/elementwise.h"
#include "layers/cpu/vector_math.h"
#include "layers/function_rules.h"

namespace poseidon::layers::cpu {

namespace {

/// The `Math` argument of the rules (layers/function_rules.h) on the CPU.
struct FunctionMath {
  static float exp(float x) { return fast_exp(x); }
  static float expm1(float x) { return fast_expm1(x); }
  static float exp_to_the_ends(float x) { return exp_to_its_ends(x); }
  static float log(float x) { return log_of_any(x); }
  static float log1p(float x) { return fast_log1p(x); }
  static float power(float base, const Exponent& exponent) {
    const float size = power_of_size(std::abs(base), exponent.power);
    return size * (base < 0 ? exponent.of_negative : 1);
  }
  static float sigmoid(float x) { return fast_sigmoid(x); }
  static float tanh(float x) { return fast_tanh(x); }
};

template <class Rule>
class CpuFunction final : public CpuLayer {
 public:
  CpuFunction(const LayerRequest& request, CpuDevice& device, const Rule& rule)
      : CpuLayer(request, device), rule_(rule) {
    set_function_needs<Rule>(needs_, request.training);
  }

  void forward(const StepContext&, const Bindings& memory) override {
    const Rule rule = rule_;
    map(team(), memory.inputs[0], memory.output,
        [rule](float x) { return rule.template value<FunctionMath>(x); });
    if (of_zero() != 0 || of_zero() != of_zero()) clear_padding(team(), memory.output);
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    const Rule rule = rule_;
    map_gradient(team(), memory, Rule::kReads == Reads::kInput ? memory.inputs[0] : memory.output,
                 [rule](float g, float seen, int64_t) {
                   return rule.template gradient<FunctionMath>(g, seen);
                 });
    // 0 times an infinite derivative is NaN, so the padding must be set to 0.
    const float padding = rule_.template gradient<FunctionMath>(0, 0);
    if (padding != padding) clear_padding(team(), memory.input_gradients[0]);
  }

 private:
  float of_zero() const { return rule_.template value<FunctionMath>(0); }

  Rule rule_;
};

}  // namespace

std::unique_ptr<Layer> make_function(const LayerRequest& request, CpuDevice& device) {
  return with_rule_of(request.definition, [&](const auto& rule) -> std::unique_ptr<Layer> {
    using Rule = std::remove_cvref_t<decltype(rule)>;
    return std::make_unique<CpuFunction<Rule>>(request, device, rule);
  });
}

}  // namespace poseidon::layers::cpu
