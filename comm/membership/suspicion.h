#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/wire/messages.h"

namespace poseidon::comm {

/// What live members report of each other: a connection that two of them have no more is the death
/// of neither, but one of them has to go.
class Suspicion {
 public:
  /// Whether the job can go on without these.
  using CanGoOn = std::function<bool(const std::vector<NodeId>&)>;
  /// Whether a member has had its part in a step of this job.
  using IsEstablished = std::function<bool(NodeId)>;

  /// A member, which others reach at `address`, has lost a peer, or never reached it. What it
  /// reports of the same peer later adds nothing.
  void add(NodeId by, const Loss& loss, const std::string& address = "");
  /// Who awaited what from this node, the first that says so; "" where nobody does.
  std::string awaited_from(NodeId node) const;

  /// The smallest set of members without which no report is left: of all such sets one without
  /// which the job can go on, then the one of the fewest `established` members, then the smallest,
  /// then of whom others report most, then the one of the most servers, then of the highest ranks.
  std::vector<NodeId> smallest_explanation(const CanGoOn& can_go_on,
                                           const IsEstablished& is_established = {}) const;
  /// The loss of one of them: with whom it has no connection, and why. Where two nodes have never
  /// reached each other, the sentence says which node called which address, and what to do. Of an
  /// established member that is a loss like others.
  Loss loss_of(NodeId node, bool is_established = false) const;

 private:
  struct Report {
    NodeId by;
    std::string by_address;
    Loss loss;
    bool is_of(NodeId node) const { return by == node || loss.who == node; }
    bool is_unreached() const { return loss.kind == Loss::Kind::kUnreached; }
    std::string by_name() const;
    bool tells_more_of(NodeId node, const Report& other) const;
  };
  /// Calls of one address that failed for one reason.
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
