#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/membership/blocked_hosts.h"
#include "comm/membership/coordinator_host.h"
#include "comm/membership/join_backoff.h"
#include "comm/membership/joiner.h"
#include "comm/membership/member_table.h"
#include "comm/membership/mtu_check.h"
#include "comm/membership/step_timer.h"
#include "comm/wire/liveness.h"
#include "comm/wire/transport.h"

namespace poseidon::comm {

struct CoordinatorOptions {
  uint16_t workers = 1, servers = 0;
  std::vector<Fact> facts;  ///< a member's facts must equal these
  Time timeout = std::chrono::seconds(10);
  Time stall_timeout = std::chrono::seconds(600);
  Time gather_timeout{0};  ///< limit on the wait for members; 0: none
  /// After this time the job begins without the missing members, if `min_workers` workers and a
  /// server have joined. 0: the job waits for all members. Requires staleness 0.
  Time gather{0};
  /// Whether another node may replace a member that fails before the links are measured and the
  /// plan is made.
  bool replaces_members = true;
  /// Whether the job continues without a member that fails after the first step has begun, if at
  /// least `min_workers` workers remain.
  bool recovers = false;
  uint16_t min_workers = 1;
  /// Maximum numbers of members after the job has begun; 0: no node may join. Values above 0
  /// require staleness 0.
  uint16_t max_workers = 0, max_servers = 0;

  uint16_t count(Role role) const { return role == Role::kWorker ? workers : servers; }
  uint16_t max_members(Role role) const {
    return role == Role::kWorker ? max_workers : max_servers;
  }
};

/// comm/membership/states.h describes how and when each state ends.
enum class CoordinatorState : uint8_t {
  kGathering,  ///< members join
  kPreparing,  ///< all members have joined; they open job and data
  kFetching,   ///< a worker sends the latest in-memory checkpoint
  kMeasuring,  ///< the workers measure the link between them
  kConnecting,
  kRunning,
  kConcluding,     ///< all workers are done; the servers report
  kSuspecting,     ///< a failure is detected or reported; further reports are collected
  kReconfiguring,  ///< a member has failed, or joiners wait: all members leave the view
  kFailing,
  kSaving,
  kEnded,
};

/// A job as its coordinator knows it: the state that the coordinator's parts share.
class CoordinatedJob {
 public:
  using State = CoordinatorState;

  CoordinatedJob(const CoordinatorOptions& options, Transport& transport,
                 const CoordinatorHost& host);
  CoordinatedJob(const CoordinatedJob&) = delete;
  CoordinatedJob& operator=(const CoordinatedJob&) = delete;

  State state() const { return state_; }
  /// When the current state was entered.
  Time entered_at() const { return entered_at_; }
  void enter(State state);
  /// Enters a state that lasts until the tensors of `worker` have arrived.
  void ask(State state, uint16_t worker);
  /// Whether the last call of ask() was for `member`.
  bool is_asked(const MemberRecord& member) const {
    return member.is_worker() && asked_ == member.node.rank;
  }

  /// The number of the current view, which all frames carry.
  uint32_t view() const { return control.view(); }
  /// Starts the next view. The remaining members become its members, renumbered without a gap. The
  /// prepared joiners become members with the next ranks. Returns these joiners in order of rank.
  /// Discards the members' reports of the old view. `step`: the number of steps done before the
  /// view.
  std::vector<Joiner> begin_next_view(int64_t step);
  /// The ranks of the present members, in ascending order.
  Survivors survivors() const;
  /// Whether the first step of the run has begun.
  bool has_begun() const { return has_begun_; }
  void begin_steps() { has_begun_ = true; }

  Time now() const { return transport.now(); }
  void record_progress(MemberRecord& member) const { member.progress_at = now(); }
  /// Closes the connection, and expects no more heartbeats from it.
  void disconnect(ConnectionId connection);
  /// Sends a Welcome with the job's data to an admitted node, and this coordinator's MtuCheck
  /// proof.
  void welcome(ConnectionId connection, NodeId node) const;
  /// Returns an id for a joiner of this role. No member and no other joiner of the role has this
  /// id.
  uint16_t assign_id(Role role);
  /// Refuses all joiners, because the job has ended.
  void refuse_joiners();
  /// Returns the reason if a member or joiner already has this address; "" if the address is free.
  std::string owner_of(const std::string& address) const;
  /// Returns `why`, the reason for the failure of a node without progress since `since`. Adds that
  /// only small messages pass, if half of the timeout has passed since then and the node's MtuCheck
  /// proof has not arrived.
  std::string failure_reason(bool sent_proof, Time since, const std::string& why) const;

  /// The first step that not all workers have done, counted from 1; 0: the job has not begun.
  int64_t step_under_way() const;
  NodeFailure failure_of(const MemberRecord& member, NodeFailure::Kind kind,
                         const std::string& why) const;
  /// Makes the failure of the coordinator itself, or of a node that is not a member.
  NodeFailure failure_of(NodeId node, NodeFailure::Kind kind, const std::string& why) const;

  const CoordinatorOptions options;
  Transport& transport;
  const CoordinatorHost host;
  ControlSender control;
  MemberTable members;
  JoinerTable joiners;
  BlockedHosts blocked_hosts;
  Liveness liveness;
  StepTimer step_timer;
  JoinBackoff join_backoff;  ///< by host
  MtuCheck mtu_check;
  /// Whether the members must return to the last checkpoint, because their values are wrong or lack
  /// sums in flight. False again when the members continue from the checkpoint.
  bool restores = false;

 private:
  State state_ = State::kGathering;
  bool has_begun_ = false;
  Time entered_at_{0};
  std::optional<uint16_t> asked_;
  std::map<Role, uint16_t> last_ids_;  ///< the last assigned id by role; no entry: none yet
};

}  // namespace poseidon::comm
