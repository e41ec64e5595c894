#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/wire/messages.h"

namespace poseidon::comm {

/// The reports of live members about each other. If two live members cannot connect, neither has
/// failed, but one of them must leave the job.
class Suspicion {
 public:
  /// Whether the job can continue without these nodes.
  using CanContinue = std::function<bool(const std::vector<NodeId>&)>;
  /// Whether a member has taken part in a step of this job.
  using IsEstablished = std::function<bool(NodeId)>;

  /// Adds the report of member `by` that a peer has failed or was never reached. `address`: where
  /// the other nodes reach `by`. Later reports of the same member about the same peer are ignored.
  void add(NodeId by, const NodeFailure& failure, const std::string& address = "");
  /// The item that a member awaited from `node`, from the first report that names one. Returns ""
  /// if no report does.
  std::string awaited_from(NodeId node) const;

  /// Returns a set of members such that each report is by or about one of them. Prefers sets by
  /// these rules, in this order:
  /// - the job can continue without the set
  /// - the fewest `established` members
  /// - the fewest members
  /// - the most reports about its members
  /// - the most servers
  /// - the highest ranks
  std::vector<NodeId> minimal_failed_set(const CanContinue& can_continue,
                                         const IsEstablished& is_established = {}) const;
  /// The failure of a member of minimal_failed_set(): the nodes to which it has no connection, and
  /// the reason. If two nodes have never reached each other, the text states which node called
  /// which address, and the remedy. For an established member the kind is always kPeer.
  NodeFailure failure_of(NodeId node, bool is_established = false) const;

 private:
  struct Report {
    NodeId by;
    std::string by_address;
    NodeFailure failure;
    bool is_of(NodeId node) const { return by == node || failure.who == node; }
    bool is_unreached() const { return failure.kind == NodeFailure::Kind::kUnreached; }
    std::string by_name() const;
    bool tells_more_of(NodeId node, const Report& other) const;
  };
  /// Failed calls of one address for one reason.
  struct Calls {
    const Report* first;
    std::vector<std::string> callers;
    std::string text() const;
  };
  std::vector<Calls> failed_calls(NodeId of) const;
  std::string unreached_text(NodeId node) const;
  std::vector<Report> reports_;
};

}  // namespace poseidon::comm
