#pragma once

#include <cmath>

#include "layers/any_device.h"

/// The arithmetic of losses that sum a term over the elements of a sample, the same for all
/// devices. term() is a function of a value and its target. loss() is a function of the sum of a
/// sample's terms. The derivative with respect to a value is slope() of the element times factor()
/// of the sample. The derivative with respect to a target is target_slope() times factor().
namespace poseidon::layers {

/// The sum of a sample's terms, and the sample's label if the loss reads labels.
struct SampleSum {
  double sum = 0;
  float label = 0;
};

/// Half the squared distance.
struct EuclideanLossRule {
  POSEIDON_ANY_DEVICE double term(float value, float target) const {
    const double distance = static_cast<double>(value) - static_cast<double>(target);
    return distance * distance;
  }
  POSEIDON_ANY_DEVICE double loss(const SampleSum& sample) const { return sample.sum / 2; }
  POSEIDON_ANY_DEVICE double factor(const SampleSum&) const { return 1; }
  POSEIDON_ANY_DEVICE float slope(float value, float target) const { return value - target; }
  POSEIDON_ANY_DEVICE float target_slope(float value, float target) const { return target - value; }
};

/// Cross entropy between the logistic function of the value and the target, a probability.
struct SigmoidLossRule {
  POSEIDON_ANY_DEVICE double term(float value, float target) const {
    const double x = value;
    return (x > 0 ? x : 0) - x * static_cast<double>(target) + ::log1p(::exp(x > 0 ? -x : x));
  }
  POSEIDON_ANY_DEVICE double loss(const SampleSum& sample) const { return sample.sum; }
  POSEIDON_ANY_DEVICE double factor(const SampleSum&) const { return 1; }
  POSEIDON_ANY_DEVICE float slope(float value, float target) const {
    return static_cast<float>(1 / (1 + ::exp(-static_cast<double>(value)))) - target;
  }
  POSEIDON_ANY_DEVICE float target_slope(float value, float) const { return -value; }
};

/// Contrastive loss of a pair at distance d (Hadsell, Chopra and LeCun 2006). If the label is not
/// 0, the pair is similar, and the loss is d^2 / 2. Else the loss is max(0, margin - d)^2 / 2, or
/// max(0, margin - d^2) / 2 in the legacy form.
struct ContrastiveLossRule {
  double margin = 1;
  bool legacy = false;

  POSEIDON_ANY_DEVICE double term(float value, float target) const {
    return EuclideanLossRule{}.term(value, target);
  }
  POSEIDON_ANY_DEVICE double loss(const SampleSum& sample) const {
    if (sample.label != 0) return sample.sum / 2;
    const double lack = hinge_distance(sample);
    return (legacy ? lack : lack * lack) / 2;
  }
  POSEIDON_ANY_DEVICE double factor(const SampleSum& sample) const {
    if (sample.label != 0) return 1;
    const double lack = hinge_distance(sample);
    if (lack == 0 || sample.sum == 0) return 0;
    return legacy ? -1 : -lack / ::sqrt(sample.sum);
  }
  POSEIDON_ANY_DEVICE float slope(float value, float target) const { return value - target; }
  POSEIDON_ANY_DEVICE float target_slope(float value, float target) const { return target - value; }

  POSEIDON_ANY_DEVICE double hinge_distance(const SampleSum& sample) const {
    const double lack = margin - (legacy ? sample.sum : ::sqrt(sample.sum));
    return lack > 0 ? lack : 0;
  }
};

// In the rules below, the target is 1 at the label, and 0 at the other classes.

/// The distance by which a score is below 1 at the label, or above -1 elsewhere; or the square of
/// this distance.
struct HingeLossRule {
  bool squared = false;

  POSEIDON_ANY_DEVICE double term(float value, float target) const {
    const double lack = hinge_distance(value, target);
    return squared ? lack * lack : lack;
  }
  POSEIDON_ANY_DEVICE double loss(const SampleSum& sample) const { return sample.sum; }
  POSEIDON_ANY_DEVICE double factor(const SampleSum&) const { return 1; }
  POSEIDON_ANY_DEVICE float slope(float value, float target) const {
    const auto lack = static_cast<float>(hinge_distance(value, target));
    if (lack == 0) return 0;
    const float size = squared ? 2 * lack : 1;
    return target != 0 ? -size : size;
  }
  POSEIDON_ANY_DEVICE float target_slope(float, float) const { return 0; }

  POSEIDON_ANY_DEVICE double hinge_distance(float value, float target) const {
    const double lack =
        1 + (target != 0 ? -static_cast<double>(value) : static_cast<double>(value));
    return lack > 0 ? lack : 0;
  }
};

/// Minus the logarithm of the label's probability. A probability below 1e-20 counts as 1e-20.
struct MultinomialLossRule {
  POSEIDON_ANY_DEVICE double term(float value, float target) const {
    return target != 0 ? -::log(static_cast<double>(at_least(value))) : 0;
  }
  POSEIDON_ANY_DEVICE double loss(const SampleSum& sample) const { return sample.sum; }
  POSEIDON_ANY_DEVICE double factor(const SampleSum&) const { return 1; }
  POSEIDON_ANY_DEVICE float slope(float value, float target) const {
    return target != 0 ? -1 / at_least(value) : 0;
  }
  POSEIDON_ANY_DEVICE float target_slope(float, float) const { return 0; }

  POSEIDON_ANY_DEVICE static float at_least(float probability) {
    return probability < 1e-20F ? 1e-20F : probability;
  }
};

}  // namespace poseidon::layers
