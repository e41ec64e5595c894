#pragma once

#include "tests/support/layer_runner.h"

namespace poseidon::test {

struct GradientTolerance {
  float step = 1e-2F;         ///< of the central difference
  double relative = 2e-3;     ///< of the gradient's largest element, at least of 1
  size_t most_elements = 40;  ///< of each tensor, chosen at random
  bool kinks = false;         ///< the layer is not smooth everywhere
  bool in_testing = true;     ///< there are gradients in the phase of testing
};

/// Compares the gradients of all inputs and parameters with central differences of a random linear
/// functional of the output (of a loss layer: the sum of weighted losses), summed in double.
/// Where the layer has kinks, elements whose differences to both sides disagree are left out; more
/// than a third of them is a failure.
void check_gradients(const LayerCase& layer_case, const LayerInputs& values,
                     const GradientTolerance& tolerance = {});

/// The same with random values, for every layout of the inputs and one to three contributions to
/// the output's gradient; and the results in place and with two threads must be the same,
/// those of bf16 alike (check_bf16). In the phase of testing the results must be the same too, or
/// their gradients agree with differences of their own (`in_testing`: the layer has any there).
void check_gradients_everywhere(LayerCase layer_case, const GradientTolerance& tolerance = {});

/// The layer that keeps its activations as bf16 agrees within 1e-2 with the one for fp32 that is
/// given the same, which are made numbers that bf16 has.
void check_bf16(LayerCase layer_case, LayerInputs values);

/// Fails unless the two agree within `relative` of the largest element (at least of 1), and names
/// `what`.
void check_close(const Values& got, const Values& expected, double relative, const char* what);

}  // namespace poseidon::test
