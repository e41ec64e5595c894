#pragma once

#include <cstdint>
#include <utility>

#include "layers/cpu/cpu_layer.h"
#include "layers/cpu/vectors.h"

/// Loops over tensors, for element-wise layers, on the threads of a team. A loop treats a tensor as
/// a flat array that includes padding lanes, so it works in any layout.
namespace poseidon::layers::cpu {

/// The inputs' format that has the most elements. If formats have equally many, the first input's
/// format is preferred.
Format common_format(const LayerRequest& request);

/// Sets the padding lanes of a blocked tensor to zero.
void clear_padding(ThreadTeam& team, const Tensor& tensor);

/// tensor = 0, padding included.
void clear(ThreadTeam& team, const Tensor& tensor);

/// target = source. Does nothing if both are the same memory.
void copy(ThreadTeam& team, const Tensor& source, const Tensor& target);

/// output[i] = function(input[i]). Both may be the same memory.
template <class Element, class Function>
void map_elements(ThreadTeam& team, const Element* in, Element* out, int64_t count,
                  const Function& function) {
  for_each_element(team, count, [=](int64_t i) { out[i] = function(in[i]); });
}
template <class Function>
void map(ThreadTeam& team, const Tensor& input, const Tensor& output, const Function& function) {
  with_element_of(input.format.type, [&](auto element) {
    using Element = decltype(element);
    map_elements(team, input.as<Element>(), output.as<Element>(), input.blocking().count(),
                 function);
  });
}

/// target[i] = function(first[i] + second[i], seen[i], i). `second` may be null. `target` may be
/// `first`.
template <class Element, class Function>
void map_gradient_elements(ThreadTeam& team, const Element* first, const Element* second,
                           const Element* seen, Element* target, int64_t count,
                           const Function& function) {
  if (second != nullptr)
    for_each_element(team, count,
                     [=](int64_t i) { target[i] = function(first[i] + second[i], seen[i], i); });
  else
    for_each_element(team, count, [=](int64_t i) { target[i] = function(first[i], seen[i], i); });
}
/// target[i] = function(gradient[i], seen[i], i). `gradient` is the sum of the output gradients,
/// and `target` is the first input's gradient. Does nothing if that gradient is not wanted. One or
/// two output gradients need one pass over memory. `target` may be the memory of the first output
/// gradient. `seen` is the input or the output. The function may read `seen` only if the layer's
/// Needs include that tensor.
template <class Function>
void map_gradient(ThreadTeam& team, const Bindings& memory, const Tensor& seen,
                  const Function& function) {
  if (!memory.input_gradients[0]) return;
  const bool pair = memory.output_gradients.size() == 2;
  const Tensor& first =
      pair ? memory.output_gradients[0] : combined_gradient(team, memory, std::nullopt);
  with_element_of(first.format.type, [&](auto element) {
    using Element = decltype(element);
    map_gradient_elements(team, first.as<Element>(),
                          pair ? memory.output_gradients[1].as<Element>() : nullptr,
                          seen.as<Element>(), memory.input_gradients[0].as<Element>(),
                          first.blocking().count(), function);
  });
}

}  // namespace poseidon::layers::cpu
