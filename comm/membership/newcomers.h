#pragma once

#include <string>

#include "comm/membership/coordinated_job.h"
#include "comm/membership/halt_vote.h"
#include "comm/membership/regrouping.h"

namespace poseidon::comm {

/// How a job that has begun gets more members. Who comes opens job and data while the others train.
/// Then all workers pause behind the same step, so nobody goes back, and leave the view; in the
/// next one the newcomers take part (Regrouping).
class Newcomers {
 public:
  /// All must outlive it.
  Newcomers(CoordinatedJob& job, HaltVote& vote, Regrouping& regrouping)
      : job_(job), vote_(vote), regrouping_(regrouping) {}

  /// Why a node of this role cannot join the job, which has begun; "" where it can.
  std::string objection(Role role, const std::string& address) const;
  void welcome(ConnectionId connection, const Join& join);
  /// A message of a node that may be a newcomer.
  void take(ConnectionId from, const ControlMessage& message);
  /// The connection has ended.
  void lose(ConnectionId connection, const std::string& why);
  /// A large message of the node has arrived.
  void take_proof(ConnectionId from);
  /// Sends a newcomer away.
  void refuse(ConnectionId connection, const std::string& why);
  /// A worker waits behind `step` complete steps.
  void paused(MemberRecord& member, int64_t step);
  /// Sends those away who make no progress, and has the workers pause when that is due.
  void watch();

 private:
  void prepared(ConnectionId connection, Newcomer& newcomer, const std::vector<Fact>& facts);
  std::string objection(const Newcomer& newcomer, const std::vector<Fact>& facts) const;
  void pause_when_due();

  CoordinatedJob& job_;
  HaltVote& vote_;
  Regrouping& regrouping_;
};

}  // namespace poseidon::comm
