#pragma once

#include <string>
#include <vector>

#include "comm/membership/coordinated_job.h"
#include "comm/membership/divergence_check.h"
#include "comm/membership/failure_detector.h"
#include "comm/membership/halt_vote.h"

namespace poseidon::comm {

/// Prepares the first step when all members have joined: in-memory checkpoint, link measurement,
/// plan, equal initial values. The preparation of a later view starts with its plan.
class Preparation {
 public:
  /// All arguments must outlive this object.
  Preparation(CoordinatedJob& job, FailureDetector& failure_detector,
              DivergenceCheck& divergence_check, HaltVote& halt)
      : job_(job),
        failure_detector_(failure_detector),
        divergence_check_(divergence_check),
        halt_(halt) {}

  /// Starts the preparation with the present members. Some or all of them may be prepared already.
  void begin() { publish_when_prepared(); }
  /// Records that a member has opened job and data.
  void prepared(MemberRecord& member, const std::vector<Fact>& facts);
  /// Continues after the host has received the in-memory checkpoint of a worker.
  void fetched();
  /// Stops waiting for the in-memory checkpoint of `checkpoint_holder`, which has sent nothing for
  /// `quiet`. Requests the next best one, or continues without.
  void give_up_fetch(const MemberRecord& checkpoint_holder, Time quiet);
  /// Records that a worker is connected to its partners of the link measurement.
  void met(MemberRecord& member);
  /// Records the result of a worker's link measurement.
  void measured(MemberRecord& member, const LinkRate& rate);
  /// Publishes the plan of a view that has begun, in which `survivors` and `joined` continue after
  /// `step` steps.
  void publish_next_view(const Survivors& survivors, const std::vector<Joiner>& joined,
                         int64_t step);
  /// Records that a member is connected to its peers, and has initial values with this digest.
  void ready(MemberRecord& member, const std::vector<int64_t>& digest);

 private:
  void publish_when_prepared();
  bool same_facts();
  void measure_link();
  void publish_when_measured();
  void publish();
  void publish(std::optional<Json> plan);
  void start_when_ready();

  CoordinatedJob& job_;
  FailureDetector& failure_detector_;
  DivergenceCheck& divergence_check_;
  HaltVote& halt_;
};

}  // namespace poseidon::comm
