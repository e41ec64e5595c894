#pragma once

#include <string>

#include "comm/membership/membership.h"

namespace poseidon::comm {

/// The end of a membership: with the job, after a failure, or at the node's own request.
class MemberShutdown {
 public:
  explicit MemberShutdown(Membership& me) : me_(me) {}

  /// Reports that all steps are done. From now on the member needs only the coordinator, not its
  /// peers.
  void finished(int64_t step);
  /// Reports to the coordinator that a peer may have failed.
  void suspect(NodeId peer, const std::string& why);
  /// Reports a peer that is silent, or was never reached. Also reports all other peers that have
  /// not been reached. These reports show the coordinator whether this node itself is cut off.
  void report_missing(NodeId peer, const NodeFailure& failure);
  void coordinator_failed(const std::string& why);
  /// Reports a local error. The job fails, unless this node is a joiner before its first step. Then
  /// the job may continue without it.
  void report_error(const std::string& why);
  /// Ends this node on request. It ends at once if there is no plan yet. Otherwise the job
  /// continues without it, or fails. Does nothing after finished().
  void leave(const std::string& why);
  /// Leaves the view, which has ended because of `failure`. The job continues in the next view.
  void reconfigure(const NodeFailure& failure);
  /// Reports this node's own failure again, in the next view. The coordinator has begun that view
  /// since the first report, and ignores frames of the older view.
  void report_again();
  /// Stops the work of this node, because the job has failed.
  void fail(const NodeFailure& failure);
  /// Ends the membership, and informs the host.
  void dismissed();
  /// If the coordinator has not decided within the timeout, handles the failure that this node
  /// reported as the failure of the job.
  void wake();

 private:
  void report(const NodeFailure& failure);

  Membership& me_;
  Time decision_deadline_{0};
  NodeFailure reported_failure_;
  std::string leave_reason_;  ///< why this node was asked to leave; "": it was not asked
};

}  // namespace poseidon::comm
