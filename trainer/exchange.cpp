#include "trainer/exchange.h"

#include "core/error.h"

namespace poseidon::trainer {

LocalExchange::LocalExchange(net::Net& net, layers::Updater& updater, int64_t shards)
    : net_(net), shards_(shards) {
  if (shards == 1) return;
  for (const net::Parameter& parameter : net.parameters())
    trees_.emplace_back(parameter.gradient.size(), shards, updater);
}

void LocalExchange::contribute(int layer, int64_t shard) {
  if (shards_ > 1)
    for (int index : net_.parameters_of(layer)) {
      const auto i = static_cast<size_t>(index);
      trees_[i].add(shard, net_.parameters()[i].gradient);
    }
  if (shard == shards_ - 1) arrived_.push_back(layer);
}

std::optional<int> LocalExchange::arrived() {
  if (arrived_.empty()) return std::nullopt;
  const int layer = arrived_.front();
  arrived_.pop_front();
  return layer;
}

int LocalExchange::wait() {
  const std::optional<int> layer = arrived();
  check(layer.has_value(), "a layer is awaited whose gradient was not contributed");
  return *layer;
}

}  // namespace poseidon::trainer
