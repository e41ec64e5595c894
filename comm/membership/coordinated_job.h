#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/membership/barred_hosts.h"
#include "comm/membership/contact.h"
#include "comm/membership/coordinator_host.h"
#include "comm/membership/failed_joins.h"
#include "comm/membership/member_table.h"
#include "comm/membership/newcomer.h"
#include "comm/membership/pace.h"
#include "comm/wire/liveness.h"
#include "comm/wire/transport.h"

namespace poseidon::comm {

struct CoordinatorOptions {
  uint16_t workers = 1, servers = 0;
  std::vector<Fact> facts;  ///< a member's facts must equal these
  Time timeout = std::chrono::seconds(10);
  Time stall_timeout = std::chrono::seconds(600);
  Time gather_timeout{0};  ///< 0: waits for members without a limit
  /// After which the job begins without those who have not joined, if `min_workers` and a server
  /// have; 0: it waits for all. Needs staleness 0.
  Time gather{0};
  /// Whether another node may replace a member that is lost before the job begins.
  bool replaces_members = true;
  /// Whether the job goes on without a member that is lost after the first step has begun, as long
  /// as there are so many workers.
  bool recovers = false;
  uint16_t min_workers = 1;
  /// How many there may be once the job has begun; 0: nobody joins it then. Needs staleness 0.
  uint16_t max_workers = 0, max_servers = 0;

  uint16_t count(Role role) const { return role == Role::kWorker ? workers : servers; }
  uint16_t most(Role role) const { return role == Role::kWorker ? max_workers : max_servers; }
};

/// comm/membership/states.h says what ends each of them, and when.
enum class CoordinatorState : uint8_t {
  kGathering,  ///< members join
  kPreparing,  ///< all have joined, and open job and data
  kFetching,   ///< a worker that keeps a later step than the coordinator sends it
  kMeasuring,  ///< the workers measure the link between them
  kConnecting,
  kRunning,
  kConcluding,  ///< all workers are done; the servers report
  kSuspecting,  ///< a member is lost; others may report what they awaited from it
  kRegrouping,  ///< a member is lost, or others join: all leave the view, to go on in the next
  kFailing,
  kSaving,
  kEnded,
};

/// A job as its coordinator knows it: what the coordinator's parts share.
class CoordinatedJob {
 public:
  using State = CoordinatorState;

  CoordinatedJob(const CoordinatorOptions& options, Transport& transport,
                 const CoordinatorHost& host);
  CoordinatedJob(const CoordinatedJob&) = delete;
  CoordinatedJob& operator=(const CoordinatedJob&) = delete;

  State state() const { return state_; }
  /// When the present state was entered.
  Time entered_at() const { return entered_at_; }
  void enter(State state);
  /// Enters a state that lasts until the tensors of a worker have come.
  void ask(State state, uint16_t worker);
  /// Whether this worker was asked last.
  bool is_asked(const MemberRecord& member) const {
    return member.is_worker() && asked_ == member.node.rank;
  }

  /// The membership's number, which all frames carry.
  uint32_t view() const { return control.view(); }
  /// The members that are left become those of the next view, numbered anew without a gap, and
  /// behind them the newcomers who are prepared, which are returned in order. Nothing that members
  /// have reported in this view counts there.
  std::vector<Newcomer> begin_next_view(int64_t step);
  /// Who takes part, by rank.
  Survivors survivors() const;
  /// Whether the first step of the run has begun.
  bool has_begun() const { return has_begun_; }
  void begin_steps() { has_begun_ = true; }

  Time now() const { return transport.now(); }
  void sign(MemberRecord& member) const { member.sign_at = now(); }
  /// Ends the connection, and counts on no sign of life from it.
  void disconnect(ConnectionId connection);
  /// Tells a node that it takes part.
  void welcome(ConnectionId connection, NodeId node) const;
  /// An id for another member of a role, which no member and no newcomer has.
  uint16_t give_id(Role role);
  /// The job has ended without them.
  void refuse_newcomers();
  /// Why no other node can have this address; "" where it is free.
  std::string owner_of(const std::string& address) const;
  /// Why the connection to a node has ended that was admitted at `since`.
  std::string reason_of_loss(bool sent_proof, Time since, const std::string& why) const;

  /// Counted from 1, the step that not all workers have done; 0 before the first.
  int64_t step_under_way() const;
  Loss loss_of(const MemberRecord& member, Loss::Kind kind, const std::string& why) const;
  /// A loss that the coordinator finds by itself, of a node that is no member.
  Loss loss_of(NodeId node, Loss::Kind kind, const std::string& why) const;

  const CoordinatorOptions options;
  Transport& transport;
  const CoordinatorHost host;
  ControlSender control;
  MemberTable members;
  NewcomerTable newcomers;
  BarredHosts barred;
  Liveness liveness;
  Pace pace;
  FailedJoins failed_joins;  ///< by host
  Contact contact;
  /// The values that members have are wrong, or lack sums, so they go back to the last checkpoint;
  /// until they have begun with it.
  bool restores = false;

 private:
  State state_ = State::kGathering;
  bool has_begun_ = false;
  Time entered_at_{0};
  std::optional<uint16_t> asked_;
  std::map<Role, uint16_t> last_ids_;  ///< given, by role; none before the first
};

}  // namespace poseidon::comm
