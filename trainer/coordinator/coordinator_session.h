#pragma once

#include <set>
#include <string>

#include "trainer/coordinator/checkpoint_session.h"
#include "trainer/coordinator/coordinator_setting.h"
#include "trainer/coordinator/plan_session.h"

namespace poseidon::trainer {

/// Handles the events of a job in its coordinator. Lives in the I/O thread. Posts long work, file
/// access and console output to the main thread.
class CoordinatorSession final : public comm::JobObserver {
 public:
  /// `side` must outlive this object.
  CoordinatorSession(CoordinatorSetting setting, CoordinatorSide& side)
      : setting_(std::move(setting)), side_(side) {}

  comm::CoordinatorHost host() { return {planner_, checkpoints_, *this}; }

  void refused(const std::string& address, const std::string& why) override;
  void joined(comm::NodeId node, const std::string& address) override;
  void started() override;
  void noted(comm::NodeId node, const comm::Note& note) override;
  void slow(comm::NodeId, const std::string& what) override { setting_.warn(what); }
  void reconfiguring(const comm::NodeFailure& node_failure) override;
  void failed(const comm::NodeFailure& node_failure) override;
  void given_up(comm::NodeId node) override;
  void ended(const comm::Outcome& outcome) override;

 private:
  bool is_new_refusal(const std::string& address, const std::string& why);

  const CoordinatorSetting setting_;
  CoordinatorSide& side_;
  PlanSession planner_{setting_, side_};
  CheckpointSession checkpoints_{setting_, side_};
  std::set<std::string> said_;  ///< refusals that were already logged
};

}  // namespace poseidon::trainer
