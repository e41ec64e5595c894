#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/membership/departure.h"
#include "comm/membership/link_probe.h"
#include "comm/membership/membership.h"

namespace poseidon::comm {

/// The phase from the job to the first step. A member learns the other members, connects to its
/// peers, and measures the links to two of them if the coordinator requests it.
class Meeting {
 public:
  /// Both must outlive it.
  Meeting(Membership& me, Departure& departure) : me_(me), departure_(departure) {}

  /// The host has opened the job.
  void prepared(const std::vector<Fact>& facts);
  /// Connects to two workers, which may be the same one; these connections stay open.
  void measure(const Measure& order);
  /// All workers are connected to their partners of the measurement.
  void probe();
  void take_plan(const Planned& planned);
  /// The host has initial values, with this digest. `meets_workers`: whether the plan moves factors
  /// between workers.
  void ready(const std::vector<int64_t>& digest, bool meets_workers);
  /// A connection to a peer is open.
  void connected();
  /// A large message of the node `from` has arrived.
  void take_proof(NodeId from);
  /// Reports peers from which no large message arrives.
  void wake();

  /// Whether a frame belongs to the measurement.
  bool is_probe(const FrameHeader& header) const {
    return header.kind == FrameKind::kProbe && probe_.has_value();
  }
  Destination place_probe(NodeId from, const FrameHeader& header) {
    return probe_->place(from, header);
  }
  void take_probe(const FrameHeader& header) {
    probe_->received(header, me_.now(), me_.transport.processor_time());
  }

 private:
  void learn(int64_t view, const std::vector<RosterEntry>& roster);
  bool expects(NodeId peer) const;
  void connect_to_peers();
  bool has_contact(const std::vector<NodeId>& peers) const;
  void say_met_when_complete();
  void say_ready_when_complete();

  Membership& me_;
  Departure& departure_;
  bool prepared_ = false;
  bool meets_workers_ = false;
  std::optional<LinkProbe> probe_;
  bool met_ = false;                            ///< whether the partners are connected
  std::optional<std::vector<int64_t>> digest_;  ///< present when the host is ready
};

}  // namespace poseidon::comm
