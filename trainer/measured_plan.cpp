#include "trainer/measured_plan.h"

#include <algorithm>

#include "core/error.h"
#include "trainer/sync_plan.h"

namespace poseidon::trainer {

namespace {

void take_larger(Json& into, const Json& from, const char* key) {
  into[key] = std::max(into.at(key).get<double>(), from.at(key).get<double>());
}

}  // namespace

MeasuredPlan::MeasuredPlan(const Job& job)
    : limit_mbps_(job.config.comm.bandwidth_limit_mbps),
      wants_link_(job.config.comm.link_mbps <= 0),
      request_(plan_request(job)) {}

bool MeasuredPlan::wanted(const Job& job, const Checkpoint* resumed, bool replan) {
  const CommConfig& comm = job.config.comm;
  const bool keeps = resumed != nullptr && !replan && !resumed->state().plan.empty();
  return comm.policy == "time" && comm.scheme == "auto" && comm.plan.empty() &&
         job.config.cluster.workers > 1 && !keeps;
}

comm::Plan MeasuredPlan::provisional() const {
  comm::PlanRequest request = request_;
  request.policy = "bytes";
  return comm::make_plan(request);
}

void MeasuredPlan::set_link(double mbps) {
  request_.link_mbps = limit_mbps_ > 0 ? std::min(mbps, limit_mbps_) : mbps;
}

void MeasuredPlan::add_times(const Json& times) {
  if (slowest_.is_null()) {
    slowest_ = times;
    return;
  }
  take_larger(slowest_, times, "update_ms");
  Json& layers = slowest_.at("layers");
  const Json& others = times.at("layers");
  if (layers.size() != others.size()) throw ConfigError("the workers have timed different layers");
  for (size_t i = 0; i < layers.size(); ++i) {
    take_larger(layers[i], others[i], "forward_ms");
    if (others[i].at("backward_ms") <= layers[i].at("backward_ms")) continue;
    layers[i]["backward_ms"] = others[i].at("backward_ms");
    layers[i]["backward_gflops"] = others[i].at("backward_gflops");
  }
}

comm::Plan MeasuredPlan::make() {
  trainer::add_times(request_, slowest_, "the workers' times");
  return comm::make_plan(request_);
}

}  // namespace poseidon::trainer
