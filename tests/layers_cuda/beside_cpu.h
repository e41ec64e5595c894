#pragma once

#include <cmath>

#include "layers/cpu/cpu_layer.h"
#include "tests/support/gradient_check.h"

namespace poseidon::test {

inline LayerBackend make_cpu_backend(int threads, DataType type) {
  auto device = std::make_unique<cpu::CpuDevice>(threads, type);
  auto factory = layers::cpu::make_cpu_factory(*device);
  return {std::move(device), std::move(factory)};
}

/// The nearest whole numbers to twice the values. Their sums and products are exact also as bf16,
/// so that no rounding decides on which side of a relu's kink an output lies.
inline LayerInputs whole_numbers(LayerInputs values) {
  for (std::vector<Values>* tensors :
       {&values.inputs, &values.parameters, &values.output_gradients})
    for (Values& tensor : *tensors)
      for (float& value : tensor) value = std::round(2 * value);
  return values;
}

/// The layer of the GPU gives what the CPU's does, and with bf16 about what it gives with fp32.
inline void check_beside_cpu(const LayerCase& layer_case, const LayerInputs& values,
                             double relative = 1e-5) {
  LayerCase of_cpu = layer_case;
  of_cpu.backend = make_cpu_backend;
  const LayerResults expected = LayerRunner(of_cpu).run(values);
  const LayerResults got = LayerRunner(layer_case).run(values);
  check_close(got.output, expected.output, relative, "output");
  for (size_t i = 0; i < expected.input_gradients.size(); ++i)
    check_close(got.input_gradients[i], expected.input_gradients[i], relative, "input gradient");
  for (size_t i = 0; i < expected.parameter_gradients.size(); ++i)
    check_close(got.parameter_gradients[i], expected.parameter_gradients[i], relative,
                "parameter gradient");
  check_bf16(layer_case, whole_numbers(values));
}

}  // namespace poseidon::test
