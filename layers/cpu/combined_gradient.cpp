#include "layers/cpu/cpu_layer.h"
#include "layers/cpu/vectors.h"

namespace poseidon::layers::cpu {

namespace {

/// Adds kOthers other gradients to `sum`, and multiplies by the derivative of a fused relu. kOthers
/// is a constant, so that the compiler unrolls the inner loop.
template <int kOthers, class Element>
void sum_and_mask(Element* sum, const Element* const* others, const Element* output, float slope,
                  int64_t count) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < count; ++i) {
    float total = sum[i];
    for (int k = 0; k < kOthers; ++k) total += others[k][i];
    if (output != nullptr && !(output[i] > 0)) total *= slope;
    sum[i] = total;
  }
}

template <class Element>
void combine(const Bindings& memory, std::optional<float> relu) {
  const auto& contributions = memory.output_gradients;
  auto* sum = contributions[0].as<Element>();
  const int64_t count = contributions[0].blocking().count();
  std::vector<const Element*> others;
  for (size_t i = 1; i < contributions.size(); ++i)
    others.push_back(contributions[i].as<Element>());
  // Each pass adds two gradients, in order. The last pass, below, may add fewer, and multiplies by
  // the relu's derivative.
  size_t done = 0;
  for (; others.size() - done > 2; done += 2)
    sum_and_mask<2>(sum, others.data() + done, {}, 1, count);
  const Element* output = relu ? memory.output.as<Element>() : nullptr;
  const float slope = relu.value_or(1);
  switch (others.size() - done) {
    case 0:
      if (relu) sum_and_mask<0>(sum, {}, output, slope, count);
      break;
    case 1: sum_and_mask<1>(sum, others.data() + done, output, slope, count); break;
    default: sum_and_mask<2>(sum, others.data() + done, output, slope, count); break;
  }
}

}  // namespace

const Tensor& combined_gradient(const Bindings& memory, std::optional<float> relu) {
  with_element_of(memory.output.format.type,
                  [&](auto element) { combine<decltype(element)>(memory, relu); });
  return memory.output_gradients[0];
}

}  // namespace poseidon::layers::cpu
