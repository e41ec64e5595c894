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

/// The published plan of a run, and the reasons for it.
struct DecidedPlan {
  comm::Plan plan;
  PublishedPlan published;
  std::vector<comm::Fact> facts;  ///< equal on all workers
  std::string no_factors;         ///< warning that servers replaced factors; "": they did not
  std::string dealt;  ///< message about logical shards that are assigned by speed; "": they are not
  DeviceNotes devices;  ///< of workers
};

/// The plan of a later view.
struct NextView {
  comm::Plan plan;
  PublishedPlan published;
  DeviceNotes devices;  ///< of workers
};

/// Makes the plan of a run. The plan is provisional until decide(). The decided plan uses
/// measurements if the job requires them. It uses no factors if only some workers have fused
/// multiply-add. The main thread creates the object. Afterwards only the I/O thread uses it, and
/// sends copies of the plan to the main thread.
class RunPlan {
 public:
  /// Both must outlive this object.
  RunPlan(const Job& job, const RunOptions& options) : job_(job), options_(options) {}

  /// Makes the provisional plan of a run that continues from `resumed`; null: it starts from the
  /// beginning. Call this again if a later in-memory checkpoint has arrived. `again`: the test or
  /// checkpoint that is due after the step of `resumed` may be missing. Throws ConfigError.
  void begin_from(const Checkpoint* resumed, bool again = false);

  /// Whether workers must time their layers.
  bool measures() const { return measured_.has_value(); }
  /// Whether workers must measure the links between them.
  bool needs_link_rate() const { return measured_ && measured_->needs_link_rate(); }
  void set_link(const comm::LinkRate& rate) { measured_->set_link(rate); }
  void add_times(uint16_t worker, LayerTimes times) {
    measured_->add_times(worker, std::move(times));
  }
  void add_device(uint16_t worker, DeviceNote device) { devices_[worker] = std::move(device); }
  /// Drops the device and times of this rank, because another worker has the rank now.
  void forget(uint16_t worker);

  /// Changes the ranks of the workers' devices when the job begins without some members. `there`
  /// lists the previous ranks of the present ones, in the order of their new ranks.
  void renumber(const comm::Survivors& there);

  /// Makes the final plan, when all workers are prepared and have these facts. Makes the plan for
  /// all expected members first, then changes it to `members`, which may be fewer. Throws
  /// ConfigError.
  void decide(const std::vector<comm::Fact>& facts, const comm::Survivors& members);
  bool is_decided() const { return decided_; }
  /// Whether the plan is decided, and the job can continue with only these members.
  bool can_continue(const comm::Survivors& left) const;
  /// Reason why this worker cannot join the run now; "" if it can. Throws ConfigError if the worker
  /// has not reported its device.
  std::string objection(const comm::Joiner& joiner) const;
  /// Whether the remaining members must return to a checkpoint after a failure. With sums in flight
  /// they must, because the failed member's contribution to these sums is missing.
  bool needs_checkpoint() const { return plan_.staleness > 0 || published_.in_flight > 0; }
  /// Makes the plan of the next view, which continues after the step of `from`. Its members are the
  /// remaining ones, then `joined`. `left` lists the previous ranks of the remaining members, in
  /// the order of their new ranks. `restored`: the members go back to a checkpoint, or to the
  /// initial values. `receiving`: number of workers that receive the values of worker 0.
  void go_on(const comm::Survivors& left, const std::vector<comm::Joiner>& joined,
             const comm::SavedStep& from, bool restored, int64_t receiving);

  /// The plan, provisional until is_decided(). The provisional plan has all expected workers and
  /// servers.
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
  int64_t begun_step_ = 0;  ///< number of steps done before this session
};

}  // namespace poseidon::trainer
