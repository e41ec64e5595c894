#include "trainer/step/cluster_exchange.h"

#include "comm/exchange/chunk_sum.h"
#include "core/error.h"

namespace poseidon::trainer {

ClusterExchange::ClusterExchange(const comm::Plan& plan, uint32_t rank, size_t devices,
                                 const ExchangeStart& start, Post post)
    : plan_(plan),
      rank_(rank),
      start_(start),
      post_(std::move(post)),
      parts_(plan, rank, devices, *this),
      devices_(devices) {}

size_t ClusterExchange::bytes(net::Net& net, const comm::Plan& plan, uint32_t rank,
                              size_t devices) {
  size_t bytes = comm::staging_bytes(plan, plan.assignment.parts_of(rank));
  for (size_t device = 0; device < devices; ++device)
    for (uint32_t layer = 0; layer < plan.layers.size(); ++layer)
      bytes += bytes_of_worker_layer(net, plan, layer, {plan, rank, device, devices});
  return bytes;
}

std::unique_ptr<GradientExchange> ClusterExchange::make_end(size_t device, net::Net& net,
                                                            layers::Updater& updater) {
  auto end = std::make_unique<DeviceExchange>(
      net, updater, plan_, OwnShards(plan_, rank_, device, devices_.size()), start_, devices_[0],
      [this](const std::vector<DeviceContribution>& given) { take(given); },
      device == 0 ? activity_ : DeviceExchange::ActivityCallbacks{});
  devices_[device] = end.get();
  return end;
}

/// Combines the contributions of the devices, and posts the completed contributions of the worker
/// to the I/O thread. Any thread may call it.
void ClusterExchange::take(const std::vector<DeviceContribution>& given) {
  std::vector<DeviceContribution> complete;
  for (const DeviceContribution& each : given)
    if (const std::optional<DeviceContribution> part = parts_.add(each)) complete.push_back(*part);
  if (complete.empty()) return;
  post_([this, complete = std::move(complete)] {
    if (exchange_ == nullptr) return;
    for (const DeviceContribution& part : complete)
      exchange_->contribute(part.layer, part.contribution());
  });
}

void ClusterExchange::open(uint32_t view, comm::Outlet& outlet) {
  exchange_ = std::make_unique<comm::WorkerExchange>(
      plan_, rank_,
      comm::WorkerExchange::Options{
          .view = view, .first_step = start_.first_step, .seed = start_.seed},
      *this, outlet, [this](uint64_t, uint32_t layer) {
        for (DeviceExchange* device : devices_) device->has_arrived(layer);
      });
}

void ClusterExchange::set_failed(const std::string& why) {
  for (DeviceExchange* device : devices_) device->set_failed(why);
}

void ClusterExchange::clear_failure() {
  for (DeviceExchange* device : devices_) device->clear_failure();
}

SingleWorkerExchange::SingleWorkerExchange(const comm::Plan& plan, size_t devices,
                                           const ExchangeStart& start)
    : exchange_(plan, 0, devices, start, [this](const std::function<void()>& task) {
        MutexLock lock(mutex_);
        task();
      }) {}

void SingleWorkerExchange::send(comm::NodeId, const comm::FrameHeader&, comm::Payload,
                                comm::Priority) {
  throw LogicError("a worker alone sends nothing");
}

}  // namespace poseidon::trainer
