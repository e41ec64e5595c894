#pragma once

#include <string>

#include "comm/membership/membership.h"

namespace poseidon::comm {

/// How a membership ends: with the job, by a loss, or by the node's own will.
class Departure {
 public:
  explicit Departure(Membership& me) : me_(me) {}

  /// All steps are done; only the coordinator matters from here on.
  void finished(int64_t step);
  /// This node believes that a peer is gone.
  void suspect(NodeId peer, const std::string& why);
  /// Reports a peer that is silent, or was never reached, and with it all peers that have not been
  /// reached either: a node that reaches none is cut off itself.
  void miss(NodeId peer, const Loss& loss);
  void coordinator_lost(const std::string& why);
  /// Reports an error of this node's own, by which the job fails.
  void report_error(const std::string& why);
  /// Ends this node on request: at once if there is no plan yet; else the job goes on without it,
  /// or fails by this.
  void leave(const std::string& why);
  /// The view has ended by this loss, and the job goes on in another one.
  void regroup(const Loss& loss);
  /// The coordinator, which has begun the next view meanwhile, hears there what this node has
  /// reported of itself between the two.
  void report_again();
  /// The job has failed.
  void fail(const Loss& loss);
  /// The job is over.
  void dismissed();
  /// Does not wait for the coordinator's verdict any longer.
  void wake();

 private:
  void accuse(const Loss& loss);

  Membership& me_;
  Time verdict_until_{0};
  Loss accusation_;
  std::string leaves_by_;  ///< why this node was asked to leave; "": it was not
};

}  // namespace poseidon::comm
