#include "comm/simulation/replica.h"

#include <utility>

#include "comm/wire/messages.h"
#include "core/digest.h"

namespace poseidon::comm {

void SimulatedReplica::allocate_memory(const std::vector<Part>& parts) {
  parts_ = parts;
  if (!has_payload()) return;
  const auto in_flight = static_cast<size_t>(plan().staleness) + 1;
  earlier_gradients_.push_back(std::move(gradients_));
  const Replica first = world_.model.initial_values();
  gradients_.assign(in_flight, std::vector<Replica>(parts.size() > 1 ? parts.size() : 0, first));
  if (!sums_.empty()) return;
  values_ = other_ = first;
  sums_.assign(in_flight, values_);
  factors_.resize(plan().layers.size());
  for (uint32_t layer = 0; layer < plan().layers.size(); ++layer)
    if (traits_of(plan().layers[layer].scheme).rebuilds())
      for (uint32_t which : {kDeltas, kActivations})
        factors_[layer][which].assign(
            steps_of_factors(plan()),
            std::vector<float>(static_cast<size_t>(plan().global_batch) * width(layer, which)));
}

std::vector<std::span<std::byte>> SimulatedReplica::memory() {
  std::vector<std::span<std::byte>> tensors;
  for (auto& layer : values_)
    for (std::vector<float>& tensor : layer)
      tensors.push_back(std::as_writable_bytes(std::span(tensor)));
  return tensors;
}

size_t SimulatedReplica::width(uint32_t layer, uint32_t which) const {
  const FactorSizes& sizes = *plan().layers[layer].traffic.factors;
  return static_cast<size_t>(which == kDeltas ? sizes.deltas : sizes.activations);
}

std::span<float> SimulatedReplica::factors(uint32_t layer, uint32_t which, uint64_t step) {
  std::vector<std::vector<float>>& of_steps = factors_[layer][which];
  return of_steps[step % of_steps.size()];
}

// ---- a step

std::span<const float> SimulatedReplica::make_gradient(uint64_t step, uint64_t batch,
                                                       uint32_t layer, uint32_t tensor,
                                                       size_t part) {
  if (!has_payload()) return {};
  const std::span<float> values = parts_.size() == 1
                                      ? sums_of(step)[layer][tensor]
                                      : gradients_[step % gradients_.size()][part][layer][tensor];
  world_.model.gradient(batch, layer, tensor, parts_[part], values);
  if (corrupted_) values[0] += 1;
  return values;
}

IntegerBlocks SimulatedReplica::make_rounded(uint64_t step, uint64_t batch, uint32_t layer,
                                             uint32_t tensor, uint32_t shard) {
  if (!has_payload()) return nullptr;
  std::vector<float> gradient(values_[layer][tensor].size());
  world_.model.gradient(batch, layer, tensor, {shard, 1}, gradient);
  if (corrupted_) gradient[0] += 1;
  return rounded_shard(plan(), world_.options.seed, layer, tensor, step, shard, gradient);
}

void SimulatedReplica::make_factors(uint64_t step, uint64_t batch, uint32_t layer, uint32_t shard) {
  if (!has_payload()) return;
  const IndexRange rows = plan().rows_of({shard, 1});
  const auto first = static_cast<uint64_t>(rows.first), count = static_cast<uint64_t>(rows.count);
  for (uint32_t which : {kDeltas, kActivations})
    world_.model.factor(batch, layer, which, first,
                        factors(layer, which, step)
                            .subspan(first * width(layer, which), count * width(layer, which)));
  if (corrupted_) factors(layer, kDeltas, step)[first * width(layer, kDeltas)] += 1;
}

void SimulatedReplica::rebuild(uint64_t step, uint32_t layer) {
  if (!has_payload()) return;
  world_.model.rebuild(layer, factors(layer, kDeltas, step), factors(layer, kActivations, step),
                       sums_of(step)[layer]);
}

void SimulatedReplica::update(uint64_t step, size_t layer) {
  if (!has_payload()) return;
  const Replica& sums = sums_of(step);
  for (size_t tensor = 0; tensor < values_[layer].size(); ++tensor)
    ComputeModel::update(values_[layer][tensor], sums[layer][tensor], other_[layer][tensor]);
  std::swap(values_[layer], other_[layer]);
}

void SimulatedReplica::revert(size_t layer) {
  if (has_payload()) std::swap(values_[layer], other_[layer]);
}

void SimulatedReplica::corrupt(size_t layer) {
  if (!has_payload()) return;
  corrupted_ = true;
  values_[layer][0][0] += 1;
}

// ---- checkpoints

void SimulatedReplica::restore(const SimulatedCheckpoint& saved) {
  values_ = other_ = saved.values;
  corrupted_ = false;
  auto step = static_cast<uint64_t>(saved.step) - saved.sums.size();
  for (const Replica& sums : saved.sums) sums_of(step++) = sums;
}

std::vector<int64_t> SimulatedReplica::digests_in_turn(int64_t turn) const {
  std::vector<int64_t> digests;
  int64_t index = 0;
  for (const auto& layer : values_)
    for (const std::vector<float>& tensor : layer)
      if (index++ % kDigestTurns == turn)
        digests.push_back(crc32c(std::as_bytes(std::span(tensor))));
  return digests;
}

std::vector<int64_t> SimulatedReplica::digests(int64_t complete, int64_t done) const {
  std::vector<int64_t> all{digest()};
  for (int64_t step = complete; step < done; ++step)
    all.push_back(has_payload() ? ComputeModel::digest(sums_of(static_cast<uint64_t>(step))) : 0);
  return all;
}

std::vector<const Replica*> SimulatedReplica::checkpoint(int64_t complete, int64_t done) const {
  std::vector<const Replica*> all{&values_};
  for (int64_t step = complete; step < done; ++step)
    all.push_back(&sums_of(static_cast<uint64_t>(step)));
  return all;
}

}  // namespace poseidon::comm
