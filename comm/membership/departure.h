#pragma once

#include <string>

#include "comm/membership/membership.h"

namespace poseidon::comm {

/// The end of a membership: with the job, after a failure, or at the node's own request.
class Departure {
 public:
  explicit Departure(Membership& me) : me_(me) {}

  /// All steps are done; from here on only the coordinator matters.
  void finished(int64_t step);
  /// This node suspects that a peer has failed.
  void suspect(NodeId peer, const std::string& why);
  /// Reports a peer that is silent, or was never reached. Also reports all other peers that have
  /// not been reached: a node that reaches none is itself cut off.
  void miss(NodeId peer, const NodeFailure& loss);
  void coordinator_lost(const std::string& why);
  /// Reports a local error. The job fails.
  void report_error(const std::string& why);
  /// Ends this node on request. It ends at once if there is no plan yet. Otherwise the job
  /// continues without it, or fails.
  void leave(const std::string& why);
  /// The view has ended for this reason, and the job continues in the next one.
  void regroup(const NodeFailure& loss);
  /// Reports this node's own failure again, in the next view. The coordinator has begun that view
  /// since the first report, and ignores frames of the older view.
  void report_again();
  /// The job has failed.
  void fail(const NodeFailure& loss);
  /// The job is over.
  void dismissed();
  /// Stops waiting for the coordinator's decision after the timeout.
  void wake();

 private:
  void accuse(const NodeFailure& loss);

  Membership& me_;
  Time verdict_until_{0};
  NodeFailure accusation_;
  std::string leaves_by_;  ///< why this node was asked to leave; "": it was not asked
};

}  // namespace poseidon::comm
