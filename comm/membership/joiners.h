#pragma once

#include <string>

#include "comm/membership/coordinated_job.h"
#include "comm/membership/halt_vote.h"
#include "comm/membership/reconfiguration.h"

namespace poseidon::comm {

/// Adds members to a running job. A joiner opens job and data while the members train. Then all
/// workers pause after the same step, so no worker reverts, and leave the view. In the next view
/// the joiners are members (Reconfiguration).
class Joiners {
 public:
  /// All arguments must outlive this object.
  Joiners(CoordinatedJob& job, HaltVote& vote, Reconfiguration& reconfiguration)
      : job_(job), vote_(vote), reconfiguration_(reconfiguration) {}

  /// Why a node of this role and address cannot join the running job; "" if it can.
  std::string objection(Role role, const std::string& address) const;
  void welcome(ConnectionId connection, const Join& join);
  /// Processes a message if it comes from a joiner.
  void take(ConnectionId from, const ControlMessage& message);
  /// Removes the joiner whose connection has ended or is silent, if there is one.
  void node_failed(ConnectionId connection, const std::string& why);
  /// Records that the MtuCheck proof of a joiner has arrived. Ignores other nodes.
  void proof_arrived(ConnectionId from);
  /// Refuses the joiner of this connection, if there is one.
  void refuse(ConnectionId connection, const std::string& why);
  /// Records that a worker waits after `step` complete steps. When all workers wait, starts the
  /// reconfiguration.
  void paused(MemberRecord& member, int64_t step);
  /// Refuses joiners that make no progress. Pauses the workers when all joiners are prepared, or
  /// when a prepared joiner has waited for CoordinatorOptions::timeout.
  void watch();

 private:
  void prepared(ConnectionId connection, Joiner& joiner, const std::vector<Fact>& facts);
  std::string objection(const Joiner& joiner, const std::vector<Fact>& facts) const;
  void pause_when_due();

  CoordinatedJob& job_;
  HaltVote& vote_;
  Reconfiguration& reconfiguration_;
};

}  // namespace poseidon::comm
