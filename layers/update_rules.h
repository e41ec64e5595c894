#pragma once

#include <cmath>
#include <type_traits>

#include "layers/any_device.h"
#include "layers/update.h"

/// The arithmetic of an Updater for one element, the same for all devices, so that all devices
/// compute the same bits. A file that includes this header must be compiled without fused
/// multiply-adds, with correctly rounded quotients and roots, and without flushing denormals to
/// zero.
namespace poseidon::layers {

/// One element of a tensor with its optimizer state. A rule does not change states that it does not
/// use.
struct UpdateElement {
  float value = 0;
  float state[2] = {0, 0};
};

/// The gradient after clipping and weight decay.
template <bool kHasL1>
struct DecayedGradient {
  float scale, l2, l1;

  POSEIDON_ANY_DEVICE explicit DecayedGradient(const UpdateParameters& n)
      : scale(n.gradient_scale), l2(n.l2), l1(kHasL1 ? n.l1 : 0) {}
  POSEIDON_ANY_DEVICE float operator()(float gradient, float value) const {
    float g = gradient * scale + l2 * value;
    if constexpr (kHasL1) g += value > 0 ? l1 : (value < 0 ? -l1 : 0.0F);
    return g;
  }
};

// A rule is constructed from the update parameters. kStates is the number of the rule's states.
// operator() computes the new element from the old element and its decayed gradient.

/// sgd and lars without a velocity.
struct PlainSgdRule {
  static constexpr int kStates = 0;
  float rate;

  POSEIDON_ANY_DEVICE explicit PlainSgdRule(const UpdateParameters& n)
      : rate(n.learning_rate * n.trust) {}
  POSEIDON_ANY_DEVICE UpdateElement operator()(UpdateElement e, float g) const {
    e.value = e.value - rate * g;
    return e;
  }
};

/// sgd and lars with a velocity. The velocity of lars includes the trust factor, but not the
/// learning rate.
struct SgdRule {
  static constexpr int kStates = 1;
  float rate, momentum, trust;

  POSEIDON_ANY_DEVICE explicit SgdRule(const UpdateParameters& n)
      : rate(n.learning_rate), momentum(n.momentum), trust(n.trust) {}
  POSEIDON_ANY_DEVICE UpdateElement operator()(UpdateElement e, float g) const {
    e.state[0] = momentum * e.state[0] + trust * g;
    e.value = e.value - rate * e.state[0];
    return e;
  }
};

struct NesterovRule {
  static constexpr int kStates = 1;
  float rate, momentum;

  POSEIDON_ANY_DEVICE explicit NesterovRule(const UpdateParameters& n)
      : rate(n.learning_rate), momentum(n.momentum) {}
  POSEIDON_ANY_DEVICE UpdateElement operator()(UpdateElement e, float g) const {
    e.state[0] = momentum * e.state[0] + g;
    e.value = e.value - rate * (g + momentum * e.state[0]);
    return e;
  }
};

struct AdaGradRule {
  static constexpr int kStates = 1;
  float rate, epsilon;

  POSEIDON_ANY_DEVICE explicit AdaGradRule(const UpdateParameters& n)
      : rate(n.learning_rate), epsilon(n.epsilon) {}
  POSEIDON_ANY_DEVICE UpdateElement operator()(UpdateElement e, float g) const {
    e.state[0] = e.state[0] + g * g;
    e.value = e.value - rate * g / (std::sqrt(e.state[0]) + epsilon);
    return e;
  }
};

template <bool kHasMomentum>
struct RmsPropRule {
  static constexpr int kStates = kHasMomentum ? 2 : 1;
  float rate, epsilon, momentum, smoothing, one_minus_smoothing;

  POSEIDON_ANY_DEVICE explicit RmsPropRule(const UpdateParameters& n)
      : rate(n.learning_rate),
        epsilon(n.epsilon),
        momentum(n.momentum),
        smoothing(n.smoothing),
        one_minus_smoothing(n.one_minus_smoothing) {}
  POSEIDON_ANY_DEVICE UpdateElement operator()(UpdateElement e, float g) const {
    e.state[0] = smoothing * e.state[0] + one_minus_smoothing * g * g;
    float step = g / (std::sqrt(e.state[0]) + epsilon);
    if constexpr (kHasMomentum) e.state[1] = step = momentum * e.state[1] + step;
    e.value = e.value - rate * step;
    return e;
  }
};

struct AdaDeltaRule {
  static constexpr int kStates = 2;
  float rate, epsilon, smoothing, one_minus_smoothing;

  POSEIDON_ANY_DEVICE explicit AdaDeltaRule(const UpdateParameters& n)
      : rate(n.learning_rate),
        epsilon(n.epsilon),
        smoothing(n.smoothing),
        one_minus_smoothing(n.one_minus_smoothing) {}
  POSEIDON_ANY_DEVICE UpdateElement operator()(UpdateElement e, float g) const {
    e.state[0] = smoothing * e.state[0] + one_minus_smoothing * g * g;
    const float step = std::sqrt(e.state[1] + epsilon) / std::sqrt(e.state[0] + epsilon) * g;
    e.state[1] = smoothing * e.state[1] + one_minus_smoothing * step * step;
    e.value = e.value - rate * step;
    return e;
  }
};

/// adam and adamw. adamw also subtracts `decay` times the value. For adam, `decay` is 0.
struct AdamRule {
  static constexpr int kStates = 2;
  float rate, decay, root_scale, epsilon;
  float beta1, beta2, one_minus_beta1, one_minus_beta2;

  POSEIDON_ANY_DEVICE explicit AdamRule(const UpdateParameters& n)
      : rate(n.learning_rate / n.correction1),
        decay(n.learning_rate * n.shrinkage),
        root_scale(1 / std::sqrt(n.correction2)),
        epsilon(n.epsilon),
        beta1(n.beta1),
        beta2(n.beta2),
        one_minus_beta1(n.one_minus_beta1),
        one_minus_beta2(n.one_minus_beta2) {}
  POSEIDON_ANY_DEVICE UpdateElement operator()(UpdateElement e, float g) const {
    e.state[0] = beta1 * e.state[0] + one_minus_beta1 * g;
    e.state[1] = beta2 * e.state[1] + one_minus_beta2 * g * g;
    const float root = std::sqrt(e.state[1]) * root_scale + epsilon;
    e.value = e.value - (decay * e.value + rate * e.state[0] / root);
    return e;
  }
};

/// Calls use(std::type_identity<Rule>()) with the form of the rule that has `states` states.
template <class Use>
void with_update_rule(UpdateRule rule, int states, const Use& use) {
  switch (rule) {
    case UpdateRule::kSgd:
    case UpdateRule::kLars:
      return states == 0 ? use(std::type_identity<PlainSgdRule>())
                         : use(std::type_identity<SgdRule>());
    case UpdateRule::kNesterov: return use(std::type_identity<NesterovRule>());
    case UpdateRule::kAdaGrad: return use(std::type_identity<AdaGradRule>());
    case UpdateRule::kRmsProp:
      return states == 1 ? use(std::type_identity<RmsPropRule<false>>())
                         : use(std::type_identity<RmsPropRule<true>>());
    case UpdateRule::kAdaDelta: return use(std::type_identity<AdaDeltaRule>());
    case UpdateRule::kAdam:
    case UpdateRule::kAdamW: return use(std::type_identity<AdamRule>());
  }
}

/// The number of optimizer states of an update.
inline int states_of(const UpdateMemory& memory) {
  return (memory.state[0].empty() ? 0 : 1) + (memory.state[1].empty() ? 0 : 1);
}

/// Calls use with two types, each as std::type_identity: the rule with `states` states, and its
/// DecayedGradient. Both types are constructed from the update parameters.
template <class Use>
void with_update(const UpdateForm& form, int states, const Use& use) {
  with_update_rule(form.rule, states, [&](auto rule) {
    if (form.l1)
      use(rule, std::type_identity<DecayedGradient<true>>());
    else
      use(rule, std::type_identity<DecayedGradient<false>>());
  });
}

/// The next value of a tracked statistic. `sum` is the sum of its contributions.
struct TrackRule {
  Tracking numbers;
  POSEIDON_ANY_DEVICE float operator()(float value, float sum) const {
    return value + numbers.momentum * (numbers.contribution_weight * sum - value);
  }
};

/// The next value of an EMA.
struct EmaRule {
  float rate;
  POSEIDON_ANY_DEVICE float operator()(float average, float value) const {
    return average + rate * (value - average);
  }
};

struct AddRule {
  POSEIDON_ANY_DEVICE float operator()(float a, float b) const { return a + b; }
};

/// The number of values in one block of a squared norm. The norm is the sum of the block sums, in
/// order.
inline constexpr int64_t kNormBlock = 4096;
/// The number of running sums of a block, which are in double precision. Value i of the block is
/// added to running sum i % kNormLanes. The sum of a block is the sum of its running sums, in
/// order.
inline constexpr int64_t kNormLanes = 8;

}  // namespace poseidon::layers
