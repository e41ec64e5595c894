#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/membership/checkpoint_queue.h"
#include "comm/membership/coordinator_host.h"
#include "comm/wire/messages.h"
#include "trainer/job/run_options.h"
#include "trainer/messages/device_note.h"
#include "trainer/plan/measured_plan.h"
#include "trainer/plan/published_plan.h"

namespace poseidon::trainer {

/// The plan of a run as it was published, and what it was decided by.
struct DecidedPlan {
  comm::Plan plan;
  PublishedPlan published;
  std::vector<comm::Fact> facts;  ///< that all workers share
  std::string no_factors;         ///< why no layer goes by factors, where that is decided here
  std::string dealt;              ///< how logical shards were dealt by speed, where they were
  DeviceNotes devices;            ///< of workers
};

/// The plan of a later view.
struct NextView {
  comm::Plan plan;
  PublishedPlan published;
  DeviceNotes devices;  ///< of workers
};

/// The plan of a run while it comes about: provisional at first; decided when all workers are
/// prepared, by their measurements where the job decides by time, and without factors where they do
/// not compute alike. Used by the I/O thread; the main thread makes it, and gets a copy of what is
/// decided.
class RunPlan {
 public:
  /// Both must outlive it.
  RunPlan(const Job& job, const RunOptions& options) : job_(job), options_(options) {}

  /// The run begins with this checkpoint, or anew where it is null. `again`: what is due after its
  /// step, as a test, may not have been done. Throws ConfigError.
  void begin_from(const Checkpoint* resumed, bool again = false);

  /// Whether workers are to time their layers.
  bool measures() const { return measured_.has_value(); }
  /// Whether the link between them is to be measured.
  bool wants_link() const { return measured_ && measured_->wants_link(); }
  void set_link(const comm::LinkRate& rate) { measured_->set_link(rate); }
  void add_times(uint16_t worker, LayerTimes times) {
    measured_->add_times(worker, std::move(times));
  }
  void add_device(uint16_t worker, DeviceNote device) { devices_[worker] = std::move(device); }
  /// Another worker has this rank now.
  void forget(uint16_t worker);

  /// These have the ranks from 0 on now in their order.
  void renumber(const comm::Survivors& there);

  /// All workers are prepared, with these facts. The plan for all who are expected is followed with
  /// `members`, who may be fewer. Throws ConfigError.
  void decide(const std::vector<comm::Fact>& facts, const comm::Survivors& members);
  bool is_decided() const { return decided_; }
  /// Whether a plan for these can be made of the one that is decided.
  bool can_go_on(const comm::Survivors& left) const;
  /// Why this node cannot join the run: replicas must stay equal; "" where it can.
  std::string objection(const comm::Newcomer& newcomer) const;
  /// Whether members that are left cannot go on with the values that they have: sums may be in
  /// flight, and with a lost one they are incomplete.
  bool needs_checkpoint() const { return plan_.staleness > 0 || published_.in_flight > 0; }
  /// They go on after these steps, with the ranks from 0 on in their order, and behind them those
  /// who have joined. `restored`: from a checkpoint, and not from the values that they have.
  /// `receiving`: the workers that receive those of worker 0.
  void go_on(const comm::Survivors& left, const std::vector<comm::Newcomer>& joined,
             const comm::SavedStep& from, bool restored, int64_t receiving);

  /// Provisional until it is decided. Its workers and servers are those that are expected.
  const comm::Plan& plan() const { return plan_; }
  const PublishedPlan& published() const { return published_; }
  const std::string& no_factors() const { return no_factors_; }
  std::string dealt() const { return measured_ ? measured_->dealt() : ""; }
  const DeviceNotes& devices() const { return devices_; }

 private:
  void measure_for(const Checkpoint* resumed);
  void take(comm::Plan plan);
  void begin_with(const comm::Survivors& members);
  void avoid_factors();

  const Job& job_;
  const RunOptions& options_;
  std::optional<MeasuredPlan> measured_;
  DeviceNotes devices_;  ///< of workers
  comm::Plan plan_;
  PublishedPlan published_;
  std::string no_factors_;
  bool decided_ = false;
  int64_t begun_step_ = 0;  ///< steps done when the run began
};

}  // namespace poseidon::trainer
