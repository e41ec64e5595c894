#include "trainer/coordinator/run_plan.h"

#include <algorithm>

#include "core/error.h"
#include "trainer/messages/facts.h"
#include "trainer/messages/notes.h"
#include "trainer/plan/sync_plan.h"
#include "trainer/plan/without_factors.h"

namespace poseidon::trainer {

namespace {

/// The device of a joiner. Throws ConfigError if the joiner has not reported it.
DeviceNote device_of(const comm::Joiner& joiner) {
  const auto note = std::ranges::find(joiner.notes, DeviceNote::kAbout, &comm::Note::about);
  if (note == joiner.notes.end()) throw ConfigError("it has not reported its device");
  return read_note<DeviceNote>(*note);
}

}  // namespace

void RunPlan::begin_from(const Checkpoint* resumed, bool again) {
  if (!MeasuredPlan::wanted(job_, resumed, options_.replan))
    measured_.reset();
  else
    measure_for(resumed);
  plan_ = measured_ ? measured_->provisional() : plan_of(job_, resumed, options_.replan);
  published_ = begun_plan(job_, plan_, resumed, options_);
  published_.again = again;
}

/// begin_from() may be called again after the workers have measured. They measure only once, so
/// this function keeps their measurements.
void RunPlan::measure_for(const Checkpoint* resumed) {
  const std::optional<MeasuredPlan> before = std::move(measured_);
  measured_.emplace(job_, resumed, options_.replan);
  if (before) measured_->take_measurements(*before);
}

void RunPlan::forget(uint16_t worker) {
  devices_.erase(worker);
  if (measured_) measured_->forget(worker);
}

/// There are no measurements to renumber: a job whose plan depends on measurements begins with all
/// workers.
void RunPlan::renumber(const comm::Survivors& there) {
  DeviceNotes devices;
  for (size_t rank = 0; rank < there.workers.size(); ++rank)
    if (const auto device = devices_.find(there.workers[rank]); device != devices_.end())
      devices.emplace(static_cast<uint16_t>(rank), device->second);
  devices_ = std::move(devices);
}

void RunPlan::begin_with(const comm::Survivors& members) {
  if (std::ssize(members.workers) == plan_.workers() &&
      std::ssize(members.servers) == plan_.servers())
    return;
  take(comm::next_plan(plan_, {members.workers, members.servers, {}, {}},
                       job_.config.comm.chunk_bytes));
}

void RunPlan::decide(const std::vector<comm::Fact>& facts, const comm::Survivors& members) {
  if (measured_) take(measured_->make());
  begin_with(members);
  avoid_factors();
  set_devices(published_, devices_);
  set_end(published_, job_, training_samples(facts), options_);
  decided_ = true;
  begun_step_ = published_.first_step;
}

bool RunPlan::can_continue(const comm::Survivors& left) const {
  return decided_ && comm::can_survive(plan_, left.workers.size(), left.servers.size());
}

std::string RunPlan::objection(const comm::Joiner& joiner) const {
  if (published_.in_flight > 0)
    return "the first steps of this run use sums in flight, which a joiner does not have";
  const DeviceNote device = device_of(joiner);
  if (device.fused_multiply_add == devices_.at(0).fused_multiply_add ||
      factored_layers(plan_).empty())
    return "";
  const bool fuses = device.fused_multiply_add;
  return text("layers use sufficient factors, which the workers compute ",
              fuses ? "without" : "with", " fused multiply-add, and its arithmetic, ",
              device.arithmetic, ", has ", fuses ? "it" : "none");
}

void RunPlan::go_on(const comm::Survivors& left, const std::vector<comm::Joiner>& joined,
                    const comm::SavedStep& from, bool restored, int64_t receiving) {
  comm::NextMembers members{left.workers, left.servers, {}, {}};
  DeviceNotes devices;
  const auto add = [&devices](const DeviceNote& device) {
    devices.emplace(static_cast<uint16_t>(devices.size()), device);
  };
  for (const uint16_t rank : left.workers) add(devices_.at(rank));
  for (const comm::Joiner& joiner : joined) {
    const bool worker = joiner.node.role == comm::Role::kWorker;
    (worker ? members.joined_workers : members.joined_servers).push_back(joiner.node.rank);
    if (worker) add(device_of(joiner));
  }
  take(comm::next_plan(plan_, members, job_.config.comm.chunk_bytes));
  devices_ = std::move(devices);
  set_devices(published_, devices_);
  published_.first_step = from.step;
  published_.in_flight = from.in_flight;
  published_.restored = restored;
  published_.receiving = receiving;
  published_.again = from.step > begun_step_;
}

void RunPlan::take(comm::Plan plan) {
  plan_ = std::move(plan);
  published_.plan = comm::to_json(plan_);
}

/// Uses parameter servers for all layers if workers would compute different gradients from the same
/// factors: replicas would not stay equal.
void RunPlan::avoid_factors() {
  if (devices_.size() != static_cast<size_t>(plan_.workers()))
    throw ConfigError("not all workers have reported their devices");
  const std::string fault = factors_fault(devices_);
  if (fault.empty() || factored_layers(plan_).empty()) return;
  take(without_factors(job_, plan_, fault));
  no_factors_ = "no layer uses sufficient factors: " + fault;
}

}  // namespace poseidon::trainer
