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

  /// A member has lost a peer. What it reports of the same peer later adds nothing.
  void add(NodeId by, const Loss& loss);
  /// Who awaited what from this node, the first that says so; "" where nobody does.
  std::string awaited_from(NodeId node) const;

  /// The smallest set of members without which no report is left: of all such sets one without
  /// which the job can go on, then the smallest, then of whom others report most, then the one of
  /// the most servers, then of the highest ranks.
  std::vector<NodeId> smallest_explanation(const CanGoOn& can_go_on) const;
  /// The loss of one of them: with whom it has no connection, and why.
  Loss loss_of(NodeId node) const;

 private:
  struct Report {
    NodeId by;
    Loss loss;
    bool is_of(NodeId node) const { return by == node || loss.who == node; }
  };
  std::vector<Report> reports_;
};

}  // namespace poseidon::comm
