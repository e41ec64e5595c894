#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/membership/link_probe.h"
#include "comm/membership/member_shutdown.h"
#include "comm/membership/membership.h"

namespace poseidon::comm {

/// Prepares a member for the first step of a view. The member learns the other members, and
/// connects to its peers. If the coordinator requests it, a worker measures its link before the
/// first view.
class MemberSetup {
 public:
  /// Both must outlive this object.
  MemberSetup(Membership& me, MemberShutdown& shutdown) : me_(me), shutdown_(shutdown) {}

  /// Reports to the coordinator that the host has opened the job.
  void prepared(const std::vector<Fact>& facts);
  /// Connects to the workers `order.to` and `order.from`, which may be the same worker. The
  /// connections stay open after the measurement.
  void measure(const Measure& order);
  /// Starts the measurement. All workers are connected to their partners.
  void probe();
  void apply_plan(const Planned& planned);
  /// Records that the host has initial values, with this digest. When all peers are connected,
  /// reports to the coordinator that this member is ready. `meets_workers`: whether the plan moves
  /// factors between workers.
  void ready(const std::vector<int64_t>& digest, bool meets_workers);
  /// Called when a connection to a peer is open. Reports to the coordinator if all needed
  /// connections and MtuCheck proofs are now present.
  void connected();
  /// Records that the MtuCheck proof of the node `from` has arrived.
  void proof_arrived(NodeId from);
  /// Reports peers whose MtuCheck proof has not arrived in time.
  void wake();

  /// Whether a frame belongs to the measurement.
  bool is_probe(const FrameHeader& header) const {
    return header.kind == FrameKind::kProbe && probe_.has_value();
  }
  Destination probe_destination(NodeId from, const FrameHeader& header) {
    return probe_->destination(from, header);
  }
  void probe_arrived(const FrameHeader& header) {
    probe_->received(header, me_.now(), me_.transport.processor_time());
  }

 private:
  void learn(int64_t view, const std::vector<RosterEntry>& roster);
  bool expects(NodeId peer) const;
  void connect_to_peers();
  bool has_passed_mtu_check(const std::vector<NodeId>& peers) const;
  void report_met_when_complete();
  void report_ready_when_complete();

  Membership& me_;
  MemberShutdown& shutdown_;
  bool prepared_ = false;
  bool meets_workers_ = false;
  std::optional<LinkProbe> probe_;
  bool met_ = false;  ///< whether the partners of the measurement are connected
  std::optional<std::vector<int64_t>> digest_;  ///< present when the host is ready
};

}  // namespace poseidon::comm
