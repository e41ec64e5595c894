#pragma once

#include "layers/any_device.h"
#include "layers/channel_functions.h"

/// The functions of layers/channel_functions.h, the same for all devices. The functions work on one
/// element or on a vector of elements. value() computes an output from an input and the channel's
/// factor and summand. gradient() computes the input's gradient. factor_gradient() computes the
/// term that the element adds to the factor's gradient. The term that the element adds to the
/// summand's gradient is the output's gradient.
namespace poseidon::layers {

struct PreluRule {
  static constexpr const char* kType = "prelu";
  static constexpr bool kReadsInput = true;  ///< whether the gradients read the input

  template <class Float>
  static POSEIDON_ANY_DEVICE Float value(Float x, Float slope, Float) {
    return x > 0 ? x : x * slope;
  }
  template <class Float>
  static POSEIDON_ANY_DEVICE Float gradient(Float g, Float x, Float slope) {
    return x > 0 ? g : g * slope;
  }
  template <class Float>
  static POSEIDON_ANY_DEVICE Float factor_gradient(Float g, Float x) {
    return x > 0 ? Float{} : g * x;
  }
};

struct ScaleRule {
  static constexpr const char* kType = "scale";
  static constexpr bool kReadsInput = true;

  template <class Float>
  static POSEIDON_ANY_DEVICE Float value(Float x, Float factor, Float) {
    return x * factor;
  }
  template <class Float>
  static POSEIDON_ANY_DEVICE Float gradient(Float g, Float, Float factor) {
    return g * factor;
  }
  template <class Float>
  static POSEIDON_ANY_DEVICE Float factor_gradient(Float g, Float x) {
    return g * x;
  }
};

struct ScaleAndBiasRule : ScaleRule {
  template <class Float>
  static POSEIDON_ANY_DEVICE Float value(Float x, Float factor, Float summand) {
    return x * factor + summand;
  }
};

struct BiasRule {
  static constexpr const char* kType = "bias";
  static constexpr bool kReadsInput = false;

  template <class Float>
  static POSEIDON_ANY_DEVICE Float value(Float x, Float, Float summand) {
    return x + summand;
  }
  template <class Float>
  static POSEIDON_ANY_DEVICE Float gradient(Float g, Float, Float) {
    return g;
  }
  template <class Float>
  static POSEIDON_ANY_DEVICE Float factor_gradient(Float, Float) {
    return Float{};
  }
};

/// Calls visitor with the rule of `definition`.
template <class Visitor>
auto with_channel_rule_of(const ChannelFunction& definition, const Visitor& visitor) {
  if (definition.type() == PreluRule::kType) return visitor(PreluRule{});
  if (!definition.factor()) return visitor(BiasRule{});
  if (!definition.summand()) return visitor(ScaleRule{});
  return visitor(ScaleAndBiasRule{});
}

}  // namespace poseidon::layers
