#pragma once

#include <cstdint>
#include <utility>

#include "layers/cpu/cpu_layer.h"

/// Loops over memory that the element-by-element layers share. They run in stored order, whatever
/// the layout, padding lanes included, on all threads.
namespace poseidon::layers::cpu {

/// The format most of the input elements are in; of equals, that of the first input.
Format common_format(const LayerRequest& request);

/// Sets the padding lanes of a blocked tensor to zero.
void clear_padding(const Tensor& tensor);

/// target = source; nothing when they are one memory.
void copy(const Tensor& source, const Tensor& target);

/// output[i] = function(input[i]); the two may be one memory.
template <class Function>
void map(const Tensor& input, const Tensor& output, const Function& function) {
  const float* in = input.as<float>();
  float* out = output.as<float>();
  const int64_t count = input.blocking().count();
#pragma omp parallel
  {
    // Each thread has a copy: what the function holds could else be changed by a write to `out`,
    // for all the compiler knows, and the loop would stay scalar.
    const Function f = function;
#pragma omp for simd schedule(static)
    for (int64_t i = 0; i < count; ++i) out[i] = f(in[i]);
  }
}

/// The first input's gradient[i] = function(gradient of output[i], i), in one pass for one or two
/// contributions; the target may be the memory of the first of them.
template <class Function>
void map_gradient(const Bindings& memory, const Function& function) {
  float* target = memory.input_gradients[0].as<float>();
  if (target == nullptr) return;
  const bool pair = memory.output_gradients.size() == 2;
  const float* first =
      pair ? memory.output_gradients[0].as<float>() : combined_gradient(memory, std::nullopt);
  const float* second = pair ? memory.output_gradients[1].as<float>() : nullptr;
  const int64_t count = memory.output_gradients[0].blocking().count();
#pragma omp parallel
  {
    const Function f = function;  // as in map()
    if (pair) {
#pragma omp for simd schedule(static)
      for (int64_t i = 0; i < count; ++i) target[i] = f(first[i] + second[i], i);
    } else {
#pragma omp for simd schedule(static)
      for (int64_t i = 0; i < count; ++i) target[i] = f(first[i], i);
    }
  }
}

}  // namespace poseidon::layers::cpu
