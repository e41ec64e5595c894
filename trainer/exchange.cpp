#include "trainer/exchange.h"

#include "core/error.h"

namespace poseidon::trainer {

LocalExchange::LocalExchange(net::Net& net, layers::Updater& updater, int64_t shards)
    : net_(net), shards_(shards) {
  for (const net::Parameter& parameter : net.parameters())
    gradients_.emplace_back(parameter.learned ? parameter.gradient.size() : 0, shards, updater);
  for (const net::Statistic& statistic : net.statistics())
    statistics_.emplace_back(statistic.contribution.size(), shards, updater);
}

void LocalExchange::forward_done(int64_t shard) {
  for (size_t i = 0; i < statistics_.size(); ++i)
    statistics_[i].add(shard, net_.statistics()[i].contribution);
  if (shard < shards_ - 1) return;
  for (const int layer : net_.summed_layers())
    if (!net_.announces(layer)) arrived_.push_back(layer);
}

void LocalExchange::contribute(int layer, int64_t shard) {
  for (const int index : net_.parameters_of(layer)) {
    const net::Parameter& parameter = net_.parameters()[static_cast<size_t>(index)];
    if (parameter.learned) gradients_[static_cast<size_t>(index)].add(shard, parameter.gradient);
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
