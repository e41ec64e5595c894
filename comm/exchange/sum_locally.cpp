#include "comm/exchange/sum_locally.h"

#include "comm/plan/chunks.h"

namespace poseidon::comm {

SumLocally::SumLocally(ExchangeContext& context, uint32_t layer)
    : LayerSum(context, layer, steps_in_flight(context.plan),
               context.plan.layers[layer].traffic.tensors.size()) {
  if (context.plan.wire != WireFormat::kInt8) return;
  for (size_t step = 0; step < steps_in_flight(context.plan); ++step)
    for (const TensorTraffic& tensor : plan().traffic.tensors)
      sums_.emplace_back(0, static_cast<uint64_t>(tensor.elements));
}

void SumLocally::contribute(const Contribution& contribution) {
  if (contribution.rounded != nullptr) {
    const auto [step, tensor] = std::pair(contribution.step, contribution.tensor);
    const size_t slot = step % steps_in_flight(context().plan);
    IntegerSum& sum = sums_[slot * plan().traffic.tensors.size() + tensor];
    sum.add(contribution.rounded);
    if (sum.shards() < context().plan.assignment.all_shards().count) return;
    sum.take_rounded(rounding_of_sum(context().options.seed,
                                     number_of_tensor(context().plan, layer(), tensor), step),
                     context().memory.sum(layer(), tensor, step));
  }
  done(contribution.step);
}

}  // namespace poseidon::comm
