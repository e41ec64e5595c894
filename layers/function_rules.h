#pragma once

#include <cmath>
#include <limits>

#include "core/error.h"
#include "layers/any_device.h"
#include "layers/functions.h"

/// The functions of layers/functions.h, the same for all devices. A rule is constructed from the
/// Definition of its layer. value() is the function. gradient() computes the input's gradient from
/// the output's gradient and the value that kReads names. `Math` is a device's class of
/// exponentials, powers and logarithms.
namespace poseidon::layers {

/// The second argument of a rule's gradient(). With kNothing the rule ignores that argument.
enum class Reads : uint8_t { kNothing, kInput, kOutput };

/// Sets the needs of a layer that computes this rule.
template <class Rule>
void set_function_needs(Needs& needs, bool training) {
  needs.backward_reads_inputs = Rule::kReads == Reads::kInput;
  needs.backward_reads_output = Rule::kReads == Reads::kOutput;
  needs.forward_in_place = training && needs.backward_reads_inputs ? -1 : 0;
  needs.backward_in_place = 0;
}

struct AbsvalRule {
  static constexpr const char* kType = "absval";
  static constexpr Reads kReads = Reads::kInput;

  explicit AbsvalRule(const Absval&) {}
  template <class Math>
  POSEIDON_ANY_DEVICE float value(float x) const {
    return ::fabsf(x);
  }
  template <class Math>
  POSEIDON_ANY_DEVICE float gradient(float g, float x) const {
    return x > 0 ? g : (x < 0 ? -g : 0.0F);
  }
};

struct BnllRule {
  static constexpr const char* kType = "bnll";
  static constexpr Reads kReads = Reads::kInput;

  explicit BnllRule(const Bnll&) {}
  /// The argument of exp is at most 0, so the result cannot overflow. log1p is accurate for small
  /// exponentials.
  template <class Math>
  POSEIDON_ANY_DEVICE float value(float x) const {
    return (x < 0 ? 0.0F : x) + Math::log1p(Math::exp(x < 0 ? x : -x));
  }
  template <class Math>
  POSEIDON_ANY_DEVICE float gradient(float g, float x) const {
    return g * Math::sigmoid(x);
  }
};

struct ClipRule {
  static constexpr const char* kType = "clip";
  static constexpr Reads kReads = Reads::kInput;
  float minimum, maximum;

  explicit ClipRule(const Clip& clip)
      : minimum(static_cast<float>(clip.minimum)), maximum(static_cast<float>(clip.maximum)) {}
  template <class Math>
  POSEIDON_ANY_DEVICE float value(float x) const {
    const float above = x < minimum ? minimum : x;
    return above > maximum ? maximum : above;
  }
  template <class Math>
  POSEIDON_ANY_DEVICE float gradient(float g, float x) const {
    const float passed = x < minimum ? 0.0F : g;
    return x > maximum ? 0.0F : passed;
  }
};

struct EluRule {
  static constexpr const char* kType = "elu";
  static constexpr Reads kReads = Reads::kOutput;
  float alpha;

  explicit EluRule(const Elu& elu) : alpha(static_cast<float>(elu.alpha)) {}
  template <class Math>
  POSEIDON_ANY_DEVICE float value(float x) const {
    const float below = alpha * Math::expm1(x);
    return x > 0 ? x : below;
  }
  template <class Math>
  POSEIDON_ANY_DEVICE float gradient(float g, float y) const {
    return g * (y > 0 ? 1 : y + alpha);
  }
};

struct ExpRule {
  static constexpr const char* kType = "exp";
  static constexpr Reads kReads = Reads::kOutput;
  float rate, factor;  ///< value: factor * e^(rate * x)

  explicit ExpRule(const Exp& exp)
      : rate(static_cast<float>(std::log(exp.base) * exp.scale)),
        factor(static_cast<float>(std::pow(exp.base, exp.shift))) {}
  template <class Math>
  POSEIDON_ANY_DEVICE float value(float x) const {
    return factor * Math::exp_to_the_ends(rate * x);
  }
  template <class Math>
  POSEIDON_ANY_DEVICE float gradient(float g, float y) const {
    return g * y * rate;
  }
};

struct LogRule {
  static constexpr const char* kType = "log";
  static constexpr Reads kReads = Reads::kInput;
  float scale, shift, unit, rate;  ///< value: unit * ln(scale * x + shift); rate = unit * scale

  explicit LogRule(const Log& log)
      : scale(static_cast<float>(log.scale)),
        shift(static_cast<float>(log.shift)),
        unit(static_cast<float>(1 / std::log(log.base))),
        rate(static_cast<float>(log.scale / std::log(log.base))) {}
  template <class Math>
  POSEIDON_ANY_DEVICE float value(float x) const {
    return unit * Math::log(scale * x + shift);
  }
  template <class Math>
  POSEIDON_ANY_DEVICE float gradient(float g, float x) const {
    return g * rate / (scale * x + shift);
  }
};

/// The rule of Power layers with exponent 1 or a constant output.
struct LinearPowerRule {
  static constexpr const char* kType = "power";
  static constexpr Reads kReads = Reads::kNothing;
  float scale, shift;
  bool ignores_x;  ///< for the power 0: infinity times the scale 0 would be NaN

  explicit LinearPowerRule(const Power& power)
      : scale(static_cast<float>(power.power * power.scale)),
        shift(static_cast<float>(power.power * power.scale == 0 ? std::pow(power.shift, power.power)
                                                                : power.shift)),
        ignores_x(power.power == 0) {}
  template <class Math>
  POSEIDON_ANY_DEVICE float value(float x) const {
    return ignores_x ? shift : scale * x + shift;
  }
  template <class Math>
  POSEIDON_ANY_DEVICE float gradient(float g, float) const {
    return g * scale;
  }
};

struct SquareRule {
  static constexpr const char* kType = "power";
  static constexpr Reads kReads = Reads::kInput;
  float scale, shift;

  explicit SquareRule(const Power& power)
      : scale(static_cast<float>(power.scale)), shift(static_cast<float>(power.shift)) {}
  template <class Math>
  POSEIDON_ANY_DEVICE float value(float x) const {
    const float base = scale * x + shift;
    return base * base;
  }
  template <class Math>
  POSEIDON_ANY_DEVICE float gradient(float g, float x) const {
    return g * (2 * scale * (scale * x + shift));
  }
};

/// An exponent. The power of a negative base is of_negative times the power of its absolute value.
struct Exponent {
  float power;
  float of_negative;  ///< factor for a negative base; 1: even; -1: odd; NaN: not an integer

  explicit Exponent(double exact)
      : power(static_cast<float>(exact)),
        of_negative(std::trunc(exact) != exact ? std::numeric_limits<float>::quiet_NaN()
                                               : (std::fmod(exact, 2) == 0 ? 1.0F : -1.0F)) {}
};

struct PowerRule {
  static constexpr const char* kType = "power";
  static constexpr Reads kReads = Reads::kInput;
  float scale, shift, rate;
  Exponent exponent, less_1;

  explicit PowerRule(const Power& power)
      : scale(static_cast<float>(power.scale)),
        shift(static_cast<float>(power.shift)),
        rate(static_cast<float>(power.power * power.scale)),
        exponent(power.power),
        less_1(power.power - 1) {}
  template <class Math>
  POSEIDON_ANY_DEVICE float value(float x) const {
    return Math::power(scale * x + shift, exponent);
  }
  template <class Math>
  POSEIDON_ANY_DEVICE float gradient(float g, float x) const {
    return g * rate * Math::power(scale * x + shift, less_1);
  }
};

struct ReluRule {
  static constexpr const char* kType = "relu";
  static constexpr Reads kReads = Reads::kOutput;
  float slope;

  explicit ReluRule(const Relu& relu) : slope(static_cast<float>(relu.slope)) {}
  template <class Math>
  POSEIDON_ANY_DEVICE float value(float x) const {
    return x * (x > 0 ? 1 : slope);
  }
  template <class Math>
  POSEIDON_ANY_DEVICE float gradient(float g, float y) const {
    return g * (y > 0 ? 1 : slope);
  }
};

struct SigmoidRule {
  static constexpr const char* kType = "sigmoid";
  static constexpr Reads kReads = Reads::kOutput;

  explicit SigmoidRule(const Sigmoid&) {}
  template <class Math>
  POSEIDON_ANY_DEVICE float value(float x) const {
    return Math::sigmoid(x);
  }
  template <class Math>
  POSEIDON_ANY_DEVICE float gradient(float g, float y) const {
    return g * y * (1 - y);
  }
};

struct SwishRule {
  static constexpr const char* kType = "swish";
  static constexpr Reads kReads = Reads::kInput;
  float beta;

  explicit SwishRule(const Swish& swish) : beta(static_cast<float>(swish.beta)) {}
  template <class Math>
  POSEIDON_ANY_DEVICE float value(float x) const {
    return x * Math::sigmoid(beta * x);
  }
  template <class Math>
  POSEIDON_ANY_DEVICE float gradient(float g, float x) const {
    const float sigmoid = Math::sigmoid(beta * x);
    return g * (sigmoid * (1 + beta * x * (1 - sigmoid)));
  }
};

struct TanhRule {
  static constexpr const char* kType = "tanh";
  static constexpr Reads kReads = Reads::kOutput;

  explicit TanhRule(const Tanh&) {}
  template <class Math>
  POSEIDON_ANY_DEVICE float value(float x) const {
    return Math::tanh(x);
  }
  template <class Math>
  POSEIDON_ANY_DEVICE float gradient(float g, float y) const {
    return g * (1 - y * y);
  }
};

struct ThresholdRule {
  static constexpr const char* kType = "threshold";
  static constexpr Reads kReads = Reads::kNothing;
  float threshold;

  explicit ThresholdRule(const Threshold& layer) : threshold(static_cast<float>(layer.threshold)) {}
  template <class Math>
  POSEIDON_ANY_DEVICE float value(float x) const {
    return x > threshold ? 1.0F : 0.0F;
  }
  template <class Math>
  POSEIDON_ANY_DEVICE float gradient(float, float) const {
    return 0;
  }
};

template <class Visitor>
auto with_rule_of(const Power& power, const Visitor& visitor) {
  if (power.power == 1 || power.power * power.scale == 0) return visitor(LinearPowerRule(power));
  if (power.power == 2) return visitor(SquareRule(power));
  return visitor(PowerRule(power));
}

/// Calls visitor with the rule of `definition`, which is a Function.
template <class Visitor>
auto with_rule_of(const Definition& definition, const Visitor& visitor) {
  const auto* d = &definition;
  if (const auto* absval = dynamic_cast<const Absval*>(d)) return visitor(AbsvalRule(*absval));
  if (const auto* bnll = dynamic_cast<const Bnll*>(d)) return visitor(BnllRule(*bnll));
  if (const auto* clip = dynamic_cast<const Clip*>(d)) return visitor(ClipRule(*clip));
  if (const auto* elu = dynamic_cast<const Elu*>(d)) return visitor(EluRule(*elu));
  if (const auto* exp = dynamic_cast<const Exp*>(d)) return visitor(ExpRule(*exp));
  if (const auto* log = dynamic_cast<const Log*>(d)) return visitor(LogRule(*log));
  if (const auto* power = dynamic_cast<const Power*>(d)) return with_rule_of(*power, visitor);
  if (const auto* relu = dynamic_cast<const Relu*>(d)) return visitor(ReluRule(*relu));
  if (const auto* sigmoid = dynamic_cast<const Sigmoid*>(d)) return visitor(SigmoidRule(*sigmoid));
  if (const auto* swish = dynamic_cast<const Swish*>(d)) return visitor(SwishRule(*swish));
  if (const auto* tanh = dynamic_cast<const Tanh*>(d)) return visitor(TanhRule(*tanh));
  if (const auto* above = dynamic_cast<const Threshold*>(d)) return visitor(ThresholdRule(*above));
  throw LogicError(text("with_rule_of: layer type ", definition.type(), " has no rule"));
}

}  // namespace poseidon::layers
