#include <algorithm>
#include <array>

#include "layers/cpu/cpu_layer.h"
#include "layers/cpu/vectors.h"

namespace poseidon::layers::cpu {

namespace {

/// Adds kOthers other gradients to `sum`, and multiplies by the derivative of a fused relu. kOthers
/// is a constant, so that the compiler unrolls the inner loop.
template <int kOthers, class Element>
void sum_and_mask(ThreadTeam& team, Element* sum, const Element* const* others,
                  const Element* output, float slope, int64_t count) {
  std::array<const Element*, kOthers> other{};
  std::copy_n(others, kOthers, other.begin());
  for_each_element(team, count, [=](int64_t i) {
    float total = sum[i];
    for (int k = 0; k < kOthers; ++k) total += other[static_cast<size_t>(k)][i];
    if (output != nullptr && !(output[i] > 0)) total *= slope;
    sum[i] = total;
  });
}

template <class Element>
void combine(ThreadTeam& team, const Bindings& memory, bool has_relu, float slope) {
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
    sum_and_mask<2>(team, sum, others.data() + done, {}, 1, count);
  const Element* output = has_relu ? memory.output.as<Element>() : nullptr;
  switch (others.size() - done) {
    case 0:
      if (has_relu) sum_and_mask<0>(team, sum, {}, output, slope, count);
      break;
    case 1: sum_and_mask<1>(team, sum, others.data() + done, output, slope, count); break;
    default: sum_and_mask<2>(team, sum, others.data() + done, output, slope, count); break;
  }
}

}  // namespace

const Tensor& combined_gradient(ThreadTeam& team, const Bindings& memory,
                                std::optional<float> relu) {
  const bool has_relu = relu.has_value();
  const float slope = relu.value_or(1);
  with_element_of(memory.output.format.type,
                  [&](auto element) { combine<decltype(element)>(team, memory, has_relu, slope); });
  return memory.output_gradients[0];
}

}  // namespace poseidon::layers::cpu
