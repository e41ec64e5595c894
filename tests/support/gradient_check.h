#pragma once

#include "tests/support/layer_runner.h"

namespace poseidon::test {

struct GradientTolerance {
  float step = 1e-2F;         ///< of the central difference
  double relative = 2e-3;     ///< relative to the gradient's largest element, at least 1
  size_t most_elements = 40;  ///< per tensor, chosen at random
  bool kinks = false;         ///< the layer is not smooth everywhere
  bool in_testing = true;     ///< the layer has gradients in phase kTest
};

/// Compares the gradients of all inputs and parameters with central differences of a scalar, summed
/// in double precision. The scalar is a random linear functional of the output. For a loss layer it
/// is the sum of the weighted losses.
///
/// If `tolerance.kinks` is set, an element whose one-sided differences disagree is skipped. The
/// check fails if more than a third of the elements are skipped.
void check_gradients(const LayerCase& layer_case, const LayerInputs& values,
                     const GradientTolerance& tolerance = {});

/// Calls check_gradients with random values for every layout of the inputs and for one to three
/// contributions to the output's gradient. Results in place and with two threads must agree, and
/// also those of bf16 (check_bf16).
///
/// With `tolerance.in_testing` the gradients in phase kTest are checked too. If the output in kTest
/// is the same, they must equal those in training. Otherwise they are compared with differences.
void check_gradients_everywhere(LayerCase layer_case, const GradientTolerance& tolerance = {});

/// The layer with bf16 activations must agree within 1e-2 with the fp32 layer. Both get the same
/// values, rounded to bf16.
void check_bf16(LayerCase layer_case, LayerInputs values);

/// Fails unless the two agree within `relative` of the largest expected element (at least 1). The
/// failure message contains `what`.
void check_close(const Values& got, const Values& expected, double relative, const char* what);

}  // namespace poseidon::test
