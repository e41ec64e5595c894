#include "trainer/coordinator/run_plan.h"

#include "core/error.h"
#include "trainer/messages/facts.h"
#include "trainer/plan/sync_plan.h"
#include "trainer/plan/without_factors.h"

namespace poseidon::trainer {

void RunPlan::begin_from(const Checkpoint* resumed) {
  if (!MeasuredPlan::wanted(job_, resumed, options_.replan))
    measured_.reset();
  else
    measure_for(resumed);
  plan_ = measured_ ? measured_->provisional() : plan_of(job_, resumed, options_.replan);
  published_ = begun_plan(job_, plan_, resumed, options_);
}

/// The workers measure once.
void RunPlan::measure_for(const Checkpoint* resumed) {
  const std::optional<MeasuredPlan> before = std::move(measured_);
  measured_.emplace(job_, resumed, options_.replan);
  if (before) measured_->take_measurements(*before);
}

void RunPlan::forget(uint16_t worker) {
  devices_.erase(worker);
  if (measured_) measured_->forget(worker);
}

void RunPlan::decide(const std::vector<comm::Fact>& facts) {
  if (measured_) take(measured_->make());
  avoid_factors();
  set_devices(published_, devices_);
  set_end(published_, job_, training_samples(facts), options_);
  decided_ = true;
}

/// Sums in flight are with those who wait for them: with the lost one they are incomplete.
bool RunPlan::can_go_on(const comm::Survivors& left) const {
  return decided_ && plan_.staleness == 0 && published_.in_flight == 0 &&
         comm::can_survive(plan_, left.workers.size(), left.servers.size());
}

void RunPlan::go_on(const comm::Survivors& left, int64_t step, bool restored) {
  const comm::NextMembers members{left.workers, left.servers, {}, {}};
  take(comm::next_plan(plan_, members, job_.config.comm.chunk_bytes));
  DeviceNotes devices;
  for (size_t rank = 0; rank < left.workers.size(); ++rank)
    devices[static_cast<uint16_t>(rank)] = devices_.at(left.workers[rank]);
  devices_ = std::move(devices);
  set_devices(published_, devices_);
  published_.first_step = step;
  published_.restored = restored;
}

void RunPlan::take(comm::Plan plan) {
  plan_ = std::move(plan);
  published_.plan = comm::to_json(plan_);
}

/// Replicas stay equal to the bit only where all make the same sum of factors.
void RunPlan::avoid_factors() {
  if (devices_.size() != static_cast<size_t>(plan_.workers()))
    throw ConfigError("not all workers have told what they compute with");
  const std::string difference = difference_of(devices_);
  if (difference.empty() || factored_layers(plan_).empty()) return;
  take(without_factors(job_, plan_, difference));
  no_factors_ = "no layer goes by factors, since workers do not compute alike: " + difference;
}

}  // namespace poseidon::trainer
