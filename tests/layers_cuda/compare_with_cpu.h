#pragma once

#include <doctest/doctest.h>

#include <cmath>

#include "layers/cpu/cpu_layer.h"
#include "layers/cpu/update.h"
#include "tests/support/gradient_check.h"

namespace poseidon::test {

inline LayerBackend make_cpu_backend(int threads, DataType type) {
  auto device = std::make_unique<cpu::CpuDevice>(threads, type);
  auto factory = layers::cpu::make_cpu_factory(*device);
  auto updater = layers::cpu::make_cpu_updater(device->team());
  return {std::move(device), std::move(factory), std::move(updater)};
}

/// Rounds twice the values to integers. Their sums and products are exact even in bf16, so rounding
/// cannot change the side of a relu's kink on which an output is.
inline LayerInputs whole_numbers(LayerInputs values) {
  for (std::vector<Values>* tensors :
       {&values.inputs, &values.parameters, &values.output_gradients})
    for (Values& tensor : *tensors)
      for (float& value : tensor) value = std::round(2 * value);
  return values;
}

/// Checks that the GPU's layer gives the results of the CPU's: equal if `relative` is 0, else close
/// (check_close).
inline void check_same_as_cpu(const LayerCase& layer_case, const LayerInputs& values,
                              double relative) {
  const LayerResults got = LayerRunner(layer_case).run(values);
  LayerCase of_cpu = layer_case;
  of_cpu.backend = make_cpu_backend;
  of_cpu.layout = Layout::kChannelsLast;
  of_cpu.in_place = false;
  const LayerResults expected = LayerRunner(of_cpu).run(values);
  if (relative == 0) {
    CHECK(got.output == expected.output);
    CHECK(got.input_gradients == expected.input_gradients);
    CHECK(got.parameter_gradients == expected.parameter_gradients);
    return;
  }
  check_close(got.output, expected.output, relative, "output");
  for (size_t i = 0; i < expected.input_gradients.size(); ++i)
    check_close(got.input_gradients[i], expected.input_gradients[i], relative, "input gradient");
  for (size_t i = 0; i < expected.parameter_gradients.size(); ++i)
    check_close(got.parameter_gradients[i], expected.parameter_gradients[i], relative,
                "parameter gradient");
}

/// Checks fp32 results against the CPU's, and bf16 results against fp32 results.
inline void check_against_cpu(const LayerCase& layer_case, const LayerInputs& values,
                              double relative = 1e-5) {
  check_same_as_cpu(layer_case, values, relative);
  check_bf16(layer_case, whole_numbers(values));
}

/// Checks random values with this number of contributions to the gradient, for each data type of
/// activations.
inline void check_each_type(LayerCase layer_case, size_t contributions, double of_fp32,
                            double of_bf16) {
  for (const DataType type : {DataType::kFp32, DataType::kBf16}) {
    CAPTURE(type == DataType::kBf16);
    layer_case.type = type;
    const LayerInputs values = random_inputs(LayerRunner(layer_case), layer_case, contributions);
    check_same_as_cpu(layer_case, values, type == DataType::kBf16 ? of_bf16 : of_fp32);
  }
}

}  // namespace poseidon::test
