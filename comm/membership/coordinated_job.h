#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/membership/coordinator_host.h"
#include "comm/membership/member_table.h"
#include "comm/membership/pace.h"
#include "comm/wire/liveness.h"
#include "comm/wire/transport.h"

namespace poseidon::comm {

struct CoordinatorOptions {
  uint16_t workers = 1, servers = 0;
  uint32_t view = 1;
  std::vector<Fact> facts;  ///< a member's facts must equal these
  Time timeout = std::chrono::seconds(10);
  Time stall_timeout = std::chrono::seconds(600);
  Time gather_timeout{0};  ///< 0: waits for members without a limit
  /// Whether another node may replace a member that is lost before the job begins.
  bool replaces_members = true;

  uint16_t count(Role role) const { return role == Role::kWorker ? workers : servers; }
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

  Time now() const { return transport.now(); }
  void sign(MemberRecord& member) const { member.sign_at = now(); }
  /// Ends the connection, and counts on no sign of life from it.
  void disconnect(ConnectionId connection);

  /// Counted from 1, the step that not all workers have done; 0 before the first.
  int64_t step_under_way() const;
  Loss loss_of(const MemberRecord& member, Loss::Kind kind, const std::string& why) const;
  /// A loss that the coordinator finds by itself, of a node that is no member.
  Loss loss_of(NodeId node, Loss::Kind kind, const std::string& why) const;

  const CoordinatorOptions options;
  Transport& transport;
  const CoordinatorHost host;
  const ControlSender control;
  MemberTable members;
  Liveness liveness;
  Pace pace;

 private:
  State state_ = State::kGathering;
  Time entered_at_{0};
  std::optional<uint16_t> asked_;
};

}  // namespace poseidon::comm
