#include "trainer/step/worker_layer.h"

#include "core/error.h"
#include "trainer/step/factored_layer.h"
#include "trainer/step/summed_layer.h"

namespace poseidon::trainer {

OwnShards::OwnShards(const comm::Plan& plan, uint32_t rank, size_t device, size_t devices)
    : all(shards_of_devices(plan.assignment.shards_of(rank), devices)[device]),
      parts(plan.wire == comm::WireFormat::kInt8
                ? shards_of_devices(all, all.count)
                : comm::parts_within(plan.assignment.all_shards().count, all)),
      is_first(device == 0),
      is_only(devices == 1) {
  for (uint32_t shard = all.first; shard < all.first + all.count; ++shard)
    first_row.push_back(plan.rows_of({shard, 1}).first);
}

size_t OwnShards::part_of(int64_t shard) const {
  for (size_t i = 0; i < parts.size(); ++i)
    if (number_of(shard) < parts[i].first + parts[i].count) return i;
  throw LogicError("the shard belongs to another device");
}

std::span<float> WorkerLayer::sum(uint32_t, uint64_t) {
  throw LogicError("the layer's gradient is not summed by servers");
}

std::span<float> WorkerLayer::factors(uint32_t, uint64_t) {
  throw LogicError("the layer has no factors");
}

std::unique_ptr<WorkerLayer> make_worker_layer(net::Net& net, layers::Updater& updater,
                                               const comm::Plan& plan, uint32_t index,
                                               const OwnShards& own, WorkerLayer* first) {
  if (comm::traits_of(plan.layers[index].scheme).sends_factors())
    return std::make_unique<FactoredLayer>(net, plan, index, own, first);
  return std::make_unique<SummedLayer>(net, updater, plan, index, own, first);
}

size_t bytes_of_worker_layer(net::Net& net, const comm::Plan& plan, uint32_t index,
                             const OwnShards& own) {
  if (comm::traits_of(plan.layers[index].scheme).sends_factors())
    return FactoredLayer::bytes(net, plan, index, own);
  return SummedLayer::bytes(net, plan, index, own);
}

int layer_of_tensor(net::Net& net, const std::string& name) {
  if (const net::Parameter* parameter = find_named(net.parameters(), name)) return parameter->layer;
  if (const net::Statistic* statistic = find_named(net.parameters().statistics(), name))
    return statistic->layer;
  throw ConfigError("the plan has \"" + name + "\", which the network lacks");
}

}  // namespace poseidon::trainer
