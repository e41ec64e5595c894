#include "trainer/step/cluster_exchange.h"

#include <algorithm>
#include <numeric>

#include "comm/exchange/chunk_sum.h"
#include "core/error.h"

namespace poseidon::trainer {

ClusterExchange::ClusterExchange(net::Net& net, layers::Updater& updater, const comm::Plan& plan,
                                 uint32_t rank, uint64_t first_step, Post post)
    : net_(net),
      plan_(plan),
      rank_(rank),
      first_step_(first_step),
      post_(std::move(post)),
      own_(plan, rank),
      announced_(
          std::ranges::count_if(net.parameters().summed_layers(),
                                [&](int layer) { return net.parameters().announces(layer); })),
      step_(first_step),
      sent_(plan.layers.size()) {
  for (uint32_t layer = 0; layer < plan.layers.size(); ++layer) {
    for (const comm::TensorTraffic& tensor : plan.layers[layer].traffic.tensors)
      layer_of_node_[layer_of_tensor(net, tensor.name)] = layer;
    nodes_.push_back(layer_of_tensor(net, plan.layers[layer].traffic.tensors.at(0).name));
    layers_.push_back(make_worker_layer(net, updater, plan, layer, own_));
  }
  for (const int node : net.parameters().summed_layers())
    if (!layer_of_node_.contains(node))
      throw ConfigError("the plan knows nothing of a layer that learns");
}

size_t ClusterExchange::bytes(net::Net& net, const comm::Plan& plan, uint32_t rank) {
  const std::vector<comm::Part> parts = plan.assignment.parts_of(rank);
  size_t bytes = comm::staging_bytes(plan, parts.size());
  for (uint32_t layer = 0; layer < plan.layers.size(); ++layer)
    bytes += bytes_of_worker_layer(net, plan, layer, parts);
  return bytes;
}

// ---- the compute thread

void ClusterExchange::begin_backward(int64_t shard) {
  arrivals_.check_alive();
  for (const auto& layer : layers_) layer->begin_backward(step_, shard);
}

void ClusterExchange::contribute_statistics(int64_t shard) {
  arrivals_.check_alive();
  std::vector<uint32_t> all(layers_.size());
  std::iota(all.begin(), all.end(), 0U);
  // They were made in the forward pass, which the lane is behind.
  contribute(all, shard, WorkerLayer::What::kStatistics, {});
  if (announced_ == 0 && own_.is_last(shard)) end_step();
}

void ClusterExchange::contribute(int node, int64_t shard) {
  arrivals_.check_alive();
  const uint32_t layer = layer_of_node_.at(node);
  contribute({&layer, 1}, shard, WorkerLayer::What::kGradients, net_.device().record());
  if (own_.is_last(shard) && ++contributed_ == announced_) end_step();
}

/// The device's work goes on while what the layers give is brought to where others get it.
void ClusterExchange::contribute(std::span<const uint32_t> layers, int64_t shard,
                                 WorkerLayer::What what, const Event& made) {
  sign_();
  std::vector<Given> all;
  const Event sent = net_.device().beside(Lane::kSend, made, [&] {
    for (const uint32_t layer : layers)
      for (const comm::Contribution& each : layers_[layer]->contribute(step_, shard, what))
        all.push_back({layer, each});
  });
  for (const uint32_t layer : layers) sent_[layer] = sent;
  if (all.empty()) return;
  hand_over({sent, [this, all = std::move(all)] {
               for (const auto& [layer, contribution] : all)
                 exchange_->contribute(layer, contribution);
             }});
}

/// All that this worker contributes to the step is handed over.
void ClusterExchange::end_step() {
  contributed_ = 0;
  ++step_;
  for (HandOver& each : held_back_) post_when_done(std::move(each));
  held_back_.clear();
}

/// The I/O thread reads what the device's work so far has written.
void ClusterExchange::post_when_done(HandOver all) {
  hand_overs_.add(all.when, [this, task = std::move(all.task)] { post_(task); });
}

void ClusterExchange::hand_over(HandOver all) {
  if (plan_.overlap == comm::Overlap::kNone)
    held_back_.push_back(std::move(all));
  else
    post_when_done(std::move(all));
}

std::optional<int> ClusterExchange::arrived() {
  const std::optional<uint32_t> layer = arrivals_.take();
  return layer ? std::optional(nodes_[*layer]) : std::nullopt;
}

void ClusterExchange::give(int node, int64_t step, const layers::GradientSink* sink) {
  layers_[layer_of_node_.at(node)]->give(static_cast<uint64_t>(step), sink);
}

std::vector<double> ClusterExchange::by_layer_of_plan(std::span<const double> of_net) const {
  std::vector<double> of_plan(layers_.size());
  for (size_t index = 0; index < of_net.size(); ++index)
    of_plan[layer_of_node_.at(net_.parameters().summed_layers()[index])] = of_net[index];
  return of_plan;
}

// ---- the I/O thread

void ClusterExchange::open(uint32_t view, comm::Outlet& outlet) {
  exchange_ = std::make_unique<comm::WorkerExchange>(
      plan_, rank_, comm::WorkerExchange::Options{.view = view, .first_step = first_step_}, *this,
      outlet, [this](uint64_t, uint32_t layer) { arrivals_.push(layer); });
}

}  // namespace poseidon::trainer
