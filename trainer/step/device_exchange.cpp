#include "trainer/step/device_exchange.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "trainer/step/job_failed.h"

namespace poseidon::trainer {

DeviceExchange::DeviceExchange(net::Net& net, layers::Updater& updater, const comm::Plan& plan,
                               const OwnShards& shards, const ExchangeStart& start,
                               const DeviceExchange* first, Deliver deliver,
                               ActivityCallbacks activity)
    : net_(net),
      plan_(plan),
      deliver_(std::move(deliver)),
      activity_(std::move(activity)),
      own_(shards),
      seed_(start.seed),
      announced_(
          std::ranges::count_if(net.parameters().summed_layers(),
                                [&](int layer) { return net.parameters().announces(layer); })),
      step_(start.first_step),
      sent_(plan.layers.size()) {
  for (uint32_t layer = 0; layer < plan.layers.size(); ++layer) {
    for (const comm::TensorTraffic& tensor : plan.layers[layer].traffic.tensors)
      layer_of_node_[layer_of_tensor(net, tensor.name)] = layer;
    nodes_.push_back(layer_of_tensor(net, plan.layers[layer].traffic.tensors.at(0).name));
    layers_.push_back(make_worker_layer(net, updater, plan, layer, own_,
                                        first == nullptr ? nullptr : &first->layer(layer)));
  }
  for (const int node : net.parameters().summed_layers())
    if (!layer_of_node_.contains(node)) throw ConfigError("the plan lacks a layer with parameters");
  arrivals_.on_long_wait(activity_.waits, activity_.works);
}

void DeviceExchange::begin_backward(int64_t shard) {
  arrivals_.check_alive();
  for (const auto& layer : layers_) layer->begin_backward(step_, shard);
}

void DeviceExchange::contribute_statistics(int64_t shard) {
  arrivals_.check_alive();
  std::vector<uint32_t> all(layers_.size());
  std::iota(all.begin(), all.end(), 0U);
  // The copies need no event: after the forward pass, Net::forward() issues the copy of the scalars
  // on the send stream. So this stream is already ordered after the computation of the statistics.
  contribute(all, shard, WorkerLayer::What::kStatistics, {});
  if (announced_ == 0 && own_.is_last(shard)) end_step();
}

void DeviceExchange::contribute(std::span<const FinalGradient> gradients, int64_t shard) {
  for (const FinalGradient& gradient : gradients) {
    arrivals_.check_alive();
    const uint32_t layer = layer_of_node_.at(gradient.layer);
    contribute({&layer, 1}, shard, WorkerLayer::What::kGradients, gradient.made);
    if (own_.is_last(shard) && ++contributed_ == announced_) end_step();
  }
}

/// Copies the contributions on the send stream, so that the passes of the device continue during
/// the copies. Then enqueues the delivery of the completed contributions.
void DeviceExchange::contribute(std::span<const uint32_t> layers, int64_t shard,
                                WorkerLayer::What what, const Event& made) {
  activity_.works();
  std::vector<DeviceContribution> all;
  const Event sent = net_.device().issue_on_stream(DeviceStream::kSend, made, [&] {
    for (const uint32_t layer : layers)
      for (const DeviceContribution& each : layers_[layer]->contribute(step_, shard, what))
        all.push_back(each);
  });
  for (const uint32_t layer : layers) sent_[layer] = sent;
  // The work of a device that shares memory is done. The next shard overwrites its values.
  if (net_.device().shares_memory())
    for (DeviceContribution& each : all) round_contribution(plan_, seed_, each);
  if (!all.empty()) enqueue_delivery({sent, std::move(all)});
}

/// Advances to the next step after this device has made all contributions to the current one.
/// Without overlap, begins the delivery of these contributions.
void DeviceExchange::end_step() {
  contributed_ = 0;
  ++step_;
  for (PendingDelivery& each : held_back_) deliver_when_done(std::move(each));
  held_back_.clear();
}

/// Delivers the contributions after the device has written them.
void DeviceExchange::deliver_when_done(PendingDelivery all) {
  completion_queue_.add(all.when, [this, parts = std::move(all.parts)]() mutable {
    for (DeviceContribution& each : parts) round_contribution(plan_, seed_, each);
    deliver_(parts);
  });
}

void DeviceExchange::enqueue_delivery(PendingDelivery all) {
  if (plan_.overlap == comm::Overlap::kNone)
    held_back_.push_back(std::move(all));
  else
    deliver_when_done(std::move(all));
}

void DeviceExchange::wait() {
  try {
    arrivals_.wait();
  } catch (const JobFailed&) {
    net_.device().record();  // throws the error of the device if it has failed
    throw;
  }
}

/// Makes the device wait for the copies of the layer's last contributions, if they are not done
/// yet. Without staleness they are always done: the layer's sum has arrived, and it includes these
/// contributions.
void DeviceExchange::release(int layer) {
  const Event& sent = sent_[layer_of_node_.at(layer)];
  if (!sent.reached()) net_.device().await(sent);
}

std::optional<int> DeviceExchange::arrived() {
  const std::optional<uint32_t> layer = arrivals_.take();
  return layer ? std::optional(nodes_[*layer]) : std::nullopt;
}

void DeviceExchange::deliver(int node, int64_t step, const layers::GradientSink* sink) {
  layers_[layer_of_node_.at(node)]->deliver(static_cast<uint64_t>(step), sink);
}

std::vector<double> DeviceExchange::by_layer_of_plan(std::span<const double> of_net) const {
  std::vector<double> of_plan(layers_.size());
  for (size_t index = 0; index < of_net.size(); ++index)
    of_plan[layer_of_node_.at(net_.parameters().summed_layers()[index])] = of_net[index];
  return of_plan;
}

}  // namespace poseidon::trainer
