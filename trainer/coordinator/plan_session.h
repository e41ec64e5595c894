#pragma once

#include <optional>
#include <vector>

#include "trainer/coordinator/coordinator_setting.h"

namespace poseidon::trainer {

/// Makes the plan of a run and of its later views, in the coordinator. Also selects the step with
/// which the run begins. Lives in the I/O thread.
class PlanSession final : public comm::JobPlanner {
 public:
  /// Both must outlive this object.
  PlanSession(const CoordinatorSetting& setting, CoordinatorSide& side)
      : setting_(setting), side_(side) {}

  Json job() override;
  bool needs_link_rate() override { return side_.plan.needs_link_rate(); }
  void measured_link(const comm::LinkRate& rate, bool one_host) override;
  std::optional<uint16_t> fetch_memory_checkpoint() override;
  void give_up_memory_checkpoint(uint16_t worker) override { side_.kept.give_up(worker); }
  comm::Time state_transfer_time() override;
  int64_t first_step() override { return side_.plan.published().first_step; }
  void renumbered(const comm::Survivors& there) override;
  std::optional<Json> plan(const std::vector<comm::Fact>& facts,
                           const comm::Survivors& members) override;
  bool can_continue(const comm::Survivors& left) override { return side_.plan.can_continue(left); }
  bool needs_checkpoint() override { return side_.plan.needs_checkpoint(); }
  int64_t saved_step() override { return setting_.records.checkpoints().saved_step(); }
  void restore() override;
  std::string objection(const comm::Joiner& joiner) override;
  std::optional<Json> plan_next_view(const comm::Survivors& left,
                                     const std::vector<comm::Joiner>& joined,
                                     int64_t step) override;

  /// Stores a worker's offer of an in-memory checkpoint of this run. If the checkpoint does not fit
  /// this job, warns and ignores the offer. Throws ConfigError if the note is invalid, or if this
  /// run requests no such checkpoints.
  void take_offer(comm::NodeId worker, const comm::Note& note);
  /// Stores the report of a step or test that the worker has stored with its in-memory checkpoint.
  /// Throws ConfigError if the note is invalid, if this run requests no such reports, or if the
  /// worker's reports are too large.
  void take_report(comm::NodeId worker, const comm::Note& note);

 private:
  DecidedPlan decided(const std::vector<comm::Fact>& facts) const;

  const CoordinatorSetting& setting_;
  CoordinatorSide& side_;
};

}  // namespace poseidon::trainer
