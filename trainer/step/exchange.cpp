#include "trainer/step/exchange.h"

#include <algorithm>

#include "core/error.h"

namespace poseidon::trainer {

namespace {

/// Whether the shards' gradients of this parameter are summed, rather than rebuilt from factors.
bool summed(const net::Net& net, const net::Parameter& parameter) {
  return parameter.learned && !net.factor_shape(parameter.layer);
}

}  // namespace

LocalExchange::LocalExchange(net::Net& net, layers::Updater& updater, int64_t shards,
                             StalenessOptions staleness_options)
    : net_(net),
      shards_(shards),
      graph_capture_(net.device().make_graph_capture()),
      step_(staleness_options.first_step - 1) {
  for (const net::Parameter& parameter : net.parameters())
    gradients_.emplace_back(net.device(), updater,
                            summed(net, parameter) ? parameter.gradient.size() : 0, shards);
  for (const net::Statistic& statistic : net.parameters().statistics())
    statistics_.emplace_back(net.device(), updater, statistic.contribution.size(), shards);
  for (const int layer : net.parameters().summed_layers())
    if (const auto shape = net.factor_shape(layer))
      factors_.try_emplace(layer, net.device(), *shape, shards * net.input_shape().samples(),
                           MemoryKind::kDevice);
  if (staleness_options.staleness == 0) return;
  buffered_sums_.resize(static_cast<size_t>(staleness_options.staleness + 1));
  const auto memory = [&](size_t bytes) {
    return net.device().allocate(bytes, MemoryKind::kDevice, "late sums");
  };
  for (BufferedSums& sums : buffered_sums_) {
    for (const net::Parameter& parameter : net.parameters())
      sums.gradients.push_back(memory(parameter.learned ? parameter.gradient.size_bytes() : 0));
    for (const net::Statistic& statistic : net.parameters().statistics())
      sums.statistics.push_back(memory(statistic.contribution.size_bytes()));
  }
}

size_t LocalExchange::bytes(net::Net& net, int64_t shards, int64_t staleness) {
  const auto buffered_sums = staleness == 0 ? 0 : static_cast<size_t>(staleness + 1);
  size_t bytes = 0;
  for (const net::Parameter& parameter : net.parameters()) {
    const size_t elements = net.parameters().packed_count(parameter);
    if (parameter.learned) bytes += buffered_sums * elements * sizeof(float);
    if (summed(net, parameter)) bytes += ShardTree::bytes(elements, shards);
  }
  for (const net::Statistic& statistic : net.parameters().statistics()) {
    const auto elements = static_cast<size_t>(statistic.spec.shape.count());
    bytes += buffered_sums * elements * sizeof(float) + ShardTree::bytes(elements, shards);
  }
  for (const int layer : net.parameters().summed_layers())
    if (const auto shape = net.factor_shape(layer))
      bytes += StackedFactors::bytes(*shape, shards * net.input_shape().samples());
  return bytes;
}

void LocalExchange::begin_backward(int64_t shard) {
  if (shard == 0) ++step_;
  for (const auto& [layer, stack] : factors_)
    net_.set_factor_memory(layer, stack.from(shard * net_.input_shape().samples()));
}

void LocalExchange::contribute_statistics(int64_t shard) {
  sum_over_shards("statistics", shard, {}, [&] {
    for (size_t i = 0; i < statistics_.size(); ++i)
      statistics_[i].add(shard, net_.parameters().statistics()[i].contribution);
  });
  if (shard < shards_ - 1) return;
  if (!buffered_sums_.empty()) buffer_statistics();
  for (const int layer : net_.parameters().summed_layers())
    if (!net_.parameters().announces(layer)) has_arrived(layer);
}

/// The stream that computes the gradients also computes the sums, so the sums wait for no event.
void LocalExchange::contribute(std::span<const FinalGradient> gradients, int64_t shard) {
  std::vector<int> layers;
  for (const FinalGradient& gradient : gradients) layers.push_back(gradient.layer);
  sum_over_shards("sums", shard, layers, [&] {
    for (const int layer : layers)
      if (!factors_.contains(layer)) sum_gradients(layer, shard);
  });
  if (shard < shards_ - 1) return;
  for (const int layer : layers) {
    if (!buffered_sums_.empty()) buffer_gradients(layer);
    has_arrived(layer);
  }
}

/// Issues work that adds a shard's values to the trees. With one shard the values are the sums.
void LocalExchange::sum_over_shards(const char* what, int64_t shard, std::span<const int> layers,
                                    const std::function<void()>& work) {
  if (shards_ == 1) return;
  if (!graph_capture_->records()) return work();
  GraphKey key{what, {shard}};
  key.numbers.insert(key.numbers.end(), layers.begin(), layers.end());
  graph_capture_->issue(key, work);
}

void LocalExchange::has_arrived(int layer) {
  made_[layer] = net_.device().record();
  arrived_.push_back(layer);
}

void LocalExchange::buffer_statistics() {
  for (size_t i = 0; i < net_.parameters().statistics().size(); ++i)
    net_.device().copy(net_.parameters().statistics()[i].contribution,
                       buffered_sums(step_).statistics[i].as<float>());
}

void LocalExchange::buffer_gradients(int layer) {
  const auto factors = factors_.find(layer);
  if (factors != factors_.end()) net_.rebuild(layer, factors->second.all());
  for (const int index : net_.parameters().of(layer)) {
    const net::Parameter& parameter = net_.parameters()[static_cast<size_t>(index)];
    if (parameter.learned)
      net_.device().copy(parameter.gradient,
                         buffered_sums(step_).gradients[static_cast<size_t>(index)].as<float>());
  }
}

void LocalExchange::sum_gradients(int layer, int64_t shard) {
  for (const int index : net_.parameters().of(layer)) {
    const net::Parameter& parameter = net_.parameters()[static_cast<size_t>(index)];
    if (parameter.learned) gradients_[static_cast<size_t>(index)].add(shard, parameter.gradient);
  }
}

std::optional<int> LocalExchange::arrived() {
  if (arrived_.empty()) return std::nullopt;
  const int layer = arrived_.front();
  arrived_.pop_front();
  return layer;
}

void LocalExchange::wait() {
  check(!arrived_.empty(), "a layer is awaited whose gradient was not contributed");
}

void LocalExchange::deliver(int layer, int64_t step, const layers::GradientSink* sink) {
  const auto factors = factors_.find(layer);
  if (!buffered_sums_.empty())
    load_buffered_sums(layer, step);
  else if (factors != factors_.end())
    return net_.rebuild(layer, factors->second.all(), sink);
  if (sink == nullptr) return;
  for (const int index : net_.parameters().of(layer)) {
    const net::Parameter& parameter = net_.parameters()[static_cast<size_t>(index)];
    if (parameter.learned) (*sink)(parameter.index, 0, parameter.gradient);
  }
}

void LocalExchange::load_buffered_sums(int layer, int64_t step) {
  for (const int index : net_.parameters().of(layer)) {
    const net::Parameter& parameter = net_.parameters()[static_cast<size_t>(index)];
    if (parameter.learned)
      net_.device().copy(buffered_sums(step).gradients[static_cast<size_t>(index)].as<float>(),
                         parameter.gradient);
  }
  for (const int index : net_.parameters().statistics_of(layer))
    net_.device().copy(buffered_sums(step).statistics[static_cast<size_t>(index)].as<float>(),
                       net_.parameters().statistics()[static_cast<size_t>(index)].contribution);
}

}  // namespace poseidon::trainer
