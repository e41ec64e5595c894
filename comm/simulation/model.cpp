#include "comm/simulation/model.h"

#include <algorithm>

#include "comm/exchange/exchange_memory.h"
#include "comm/exchange/integer_sum.h"
#include "comm/plan/chunks.h"
#include "comm/plan/shard_parts.h"
#include "comm/simulation/mixed.h"
#include "comm/wire/codec.h"
#include "core/digest.h"

namespace poseidon::comm {

namespace {

constexpr uint64_t kFirstValues = UINT64_MAX;
constexpr float kKept = 0.875f, kRate = 0.125f;

size_t elements_of(const Plan& plan, uint32_t layer, uint32_t tensor) {
  return static_cast<size_t>(plan.layers[layer].traffic.tensors[tensor].elements);
}

void round_by(const ValueCodec& codec, std::span<float> values) {
  std::vector<std::byte> wire(codec.bytes(values.size()));
  codec.encode(values, wire.data());
  codec.decode(wire.data(), values);
}

}  // namespace

float ComputeModel::made_up(uint64_t step, uint64_t shard, uint32_t layer, uint32_t tensor,
                            uint64_t element) const {
  const uint64_t at = mixed(seed_ ^ mixed(step * kMixStep + shard)) + (uint64_t{layer} << 48) +
                      (uint64_t{tensor} << 40) + element;
  // The values have 24 bits. So their sums are rounded, and a wrong order of additions changes the
  // bits.
  return static_cast<float>(static_cast<int64_t>(mixed(at) >> 40) - (1 << 23)) * 0x1p-23f;
}

Replica ComputeModel::initial_values() const {
  Replica replica;
  for (uint32_t layer = 0; layer < plan_.layers.size(); ++layer) {
    replica.emplace_back();
    for (uint32_t tensor = 0; tensor < plan_.layers[layer].traffic.tensors.size(); ++tensor) {
      auto& values = replica.back().emplace_back(elements_of(plan_, layer, tensor));
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = made_up(kFirstValues, 0, layer, tensor, i);
    }
  }
  return replica;
}

void ComputeModel::gradient(uint64_t step, uint32_t layer, uint32_t tensor, Part part,
                            std::span<float> out) const {
  if (part.count == 1) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = made_up(step, part.first, layer, tensor, i);
    return;
  }
  const uint32_t left = left_count(part.count);
  std::vector<float> right(out.size());
  gradient(step, layer, tensor, {part.first, left}, out);
  gradient(step, layer, tensor, {part.first + left, part.count - left}, right);
  add_into(out, right);
}

void ComputeModel::sum(uint64_t step, uint32_t layer, uint32_t tensor, std::span<float> out) const {
  const Part all = plan_.assignment.all_shards();
  if (!rounds_shards(plan_.wire, plan_.layers[layer].traffic.tensors[tensor]))
    return gradient(step, layer, tensor, all, out);
  IntegerSum sum(0, out.size());
  for (uint32_t shard = all.count; shard-- > 0;) {  // not the order of the exchange
    gradient(step, layer, tensor, {shard, 1}, out);
    sum.add(rounded_shard(plan_, seed_, layer, tensor, step, shard, out));
  }
  sum.take_rounded(rounding_of_sum(seed_, number_of_tensor(plan_, layer, tensor), step), out);
}

void ComputeModel::factor(uint64_t step, uint32_t layer, uint32_t which, uint64_t first,
                          std::span<float> out) const {
  const FactorSizes& sizes = *plan_.layers[layer].traffic.factors;
  const auto width = static_cast<uint64_t>(which == 0 ? sizes.deltas : sizes.activations);
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = made_up(step, first + i / width, layer, 128 + which, i % width);
  // About half of the activations are zero, so their slices are sent in the sparse form.
  if (which == kActivations)
    for (float& value : out) value = std::max(value, 0.0f);
}

void ComputeModel::rebuild(uint32_t layer, std::span<const float> deltas,
                           std::span<const float> activations,
                           std::vector<std::vector<float>>& sums) const {
  const LayerTraffic& traffic = plan_.layers[layer].traffic;
  const auto rows = static_cast<size_t>(traffic.rows),
             columns = static_cast<size_t>(traffic.columns);
  for (auto& sum : sums) std::fill(sum.begin(), sum.end(), 0.0f);
  for (size_t place = 0; place < deltas.size() / rows; ++place)
    for (size_t m = 0; m < rows; ++m) {
      const float delta = deltas[place * rows + m];
      for (size_t n = 0; n < columns; ++n)
        sums[0][m * columns + n] += delta * activations[place * columns + n];
      if (sums.size() > 1) sums[1][m] += delta;
    }
}

void ComputeModel::update(std::span<const float> value, std::span<const float> sum,
                          std::span<float> next) {
  for (size_t i = 0; i < value.size(); ++i) next[i] = kKept * value[i] - kRate * sum[i];
}

void ComputeModel::update(Replica& values, const Replica& sums) {
  for (size_t layer = 0; layer < values.size(); ++layer)
    for (size_t tensor = 0; tensor < values[layer].size(); ++tensor)
      update(values[layer][tensor], sums[layer][tensor], values[layer][tensor]);
}

uint32_t ComputeModel::digest(const Replica& replica) {
  uint32_t crc = 0;
  for (const auto& layer : replica)
    for (const auto& tensor : layer) crc = crc32c(std::as_bytes(std::span(tensor)), crc);
  return crc;
}

uint32_t reference_digest(const Plan& plan, uint64_t seed, int64_t steps) {
  const ComputeModel model(plan, seed);
  Replica replica = model.initial_values(), sums = replica;
  for (int64_t step = 0; step < steps; ++step)
    for (uint32_t layer = 0; layer < replica.size(); ++layer) {
      const bool rebuilds = traits_of(plan.layers[layer].scheme).rebuilds();
      if (rebuilds) {
        const FactorSizes& sizes = *plan.layers[layer].traffic.factors;
        std::vector<float> deltas(static_cast<size_t>(plan.global_batch * sizes.deltas));
        std::vector<float> activations(static_cast<size_t>(plan.global_batch * sizes.activations));
        model.factor(static_cast<uint64_t>(step), layer, 0, 0, deltas);
        model.factor(static_cast<uint64_t>(step), layer, 1, 0, activations);
        round_by(factor_codec(plan.wire), deltas);
        round_by(factor_codec(plan.wire), activations);
        model.rebuild(layer, deltas, activations, sums[layer]);
      }
      for (uint32_t tensor = 0; tensor < replica[layer].size(); ++tensor) {
        std::vector<float>& value = replica[layer][tensor];
        if (!rebuilds) model.sum(static_cast<uint64_t>(step), layer, tensor, sums[layer][tensor]);
        ComputeModel::update(value, sums[layer][tensor], value);
      }
    }
  return ComputeModel::digest(replica);
}

}  // namespace poseidon::comm
