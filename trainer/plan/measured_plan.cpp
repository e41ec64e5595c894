#include "trainer/plan/measured_plan.h"

#include <algorithm>

#include "core/error.h"
#include "trainer/plan/sync_plan.h"

namespace poseidon::trainer {

namespace {

/// Each layer's time becomes the longer of both. Throws ConfigError where they are of other layers.
void raise(LayerTimes& slowest, const LayerTimes& times, uint16_t worker) {
  const auto same = [](const LayerTimes::Layer& one, const LayerTimes::Layer& other) {
    return one.name == other.name;
  };
  if (times.batch != slowest.batch || !std::ranges::equal(times.layers, slowest.layers, same))
    throw ConfigError(
        text("worker ", worker, " has timed other layers than other workers, or another batch"));
  slowest.update_ms = std::max(slowest.update_ms, times.update_ms);
  for (size_t i = 0; i < times.layers.size(); ++i) {
    LayerTimes::Layer& layer = slowest.layers[i];
    const LayerTimes::Layer& other = times.layers[i];
    layer.forward_ms = std::max(layer.forward_ms, other.forward_ms);
    if (other.backward_ms <= layer.backward_ms) continue;
    layer.backward_ms = other.backward_ms;
    layer.backward_gflops = other.backward_gflops;
  }
}

}  // namespace

MeasuredPlan::MeasuredPlan(const Job& job)
    : limit_mbps_(job.config.comm.bandwidth_limit_mbps),
      wants_link_(job.config.comm.link_mbps <= 0),
      request_(plan_request(job)) {}

bool MeasuredPlan::wanted(const Job& job, const Checkpoint* resumed, bool replan) {
  const CommConfig& comm = job.config.comm;
  const bool keeps = resumed != nullptr && !replan && !resumed->state().plan.empty();
  return comm.policy == comm::Policy::kTime && comm.scheme == comm::SchemeRule::kAuto &&
         comm.plan.empty() && job.config.cluster.workers > 1 && !keeps;
}

comm::Plan MeasuredPlan::provisional() const {
  comm::PlanRequest request = request_;
  request.policy = comm::Policy::kBytes;
  return comm::make_plan(request);
}

void MeasuredPlan::set_link(const comm::LinkRate& rate) {
  request_.link_mbps = limit_mbps_ > 0 ? std::min(rate.mbps, limit_mbps_) : rate.mbps;
  processor_ns_per_byte_ = rate.processor_ns_per_byte;
}

comm::Plan MeasuredPlan::make() {
  if (times_.empty()) throw ConfigError("no worker has told what its layers take");
  LayerTimes slowest = times_.begin()->second;
  for (const auto& [worker, times] : times_) raise(slowest, times, worker);
  trainer::add_times(request_, slowest, "the workers' times");
  // The threads that compute share what the network takes of their processors.
  if (request_.processor_ns_per_byte == 0)
    request_.processor_ns_per_byte = processor_ns_per_byte_ / slowest.threads;
  return comm::make_plan(request_);
}

}  // namespace poseidon::trainer
