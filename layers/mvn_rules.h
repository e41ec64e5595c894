#pragma once

#include <cmath>

#include "layers/any_device.h"
#include "layers/mvn.h"

/// The arithmetic of mvn on sums over a population, which is the set of values with a common mean.
/// All devices use this arithmetic. x is an input value, and y is its output. g is the gradient of
/// y, and dx is the gradient of x.
namespace poseidon::layers {

/// y = unit * (x - mean).
struct MvnForward {
  double mean;
  double unit;   ///< 1 / (deviation + epsilon), or 1
  double slope;  ///< in dx, the coefficient of x - mean is -slope * sum of g * (x - mean)
};

/// dx = of_gradient * g + of_centered * (x - mean) + term.
struct MvnBackward {
  double of_gradient, of_centered, term;
};

struct MvnRule {
  double population, epsilon;
  bool variance;

  explicit MvnRule(const Mvn& mvn)
      : population(static_cast<double>(mvn.population())),
        epsilon(mvn.epsilon),
        variance(mvn.variance) {}

  /// `squares`: the sum of squared distances from the mean.
  POSEIDON_ANY_DEVICE MvnForward forward(double mean, double squares) const {
    if (!variance) return {mean, 1, 0};
    const double deviation = ::sqrt((squares > 0 ? squares : 0) / population);
    const double unit = 1 / (deviation + epsilon);
    const double slope = deviation > 0 ? unit * unit / (deviation * population) : 0;
    return {mean, unit, slope};
  }
  /// `gradient`: the sum of g. `centered`: the sum of g * (x - mean).
  POSEIDON_ANY_DEVICE MvnBackward backward(const MvnForward& f, double gradient,
                                           double centered) const {
    return {f.unit, -f.slope * centered, -f.unit * gradient / population};
  }
};

}  // namespace poseidon::layers
