#include "trainer/messages/member_end.h"

#include "core/error.h"

namespace poseidon::trainer {

MemberEnd end_of(const comm::NodeFailure& node_failure) {
  const bool own_error = node_failure.kind == comm::NodeFailure::Kind::kError ||
                         node_failure.kind == comm::NodeFailure::Kind::kDiverged;
  return own_error ? MemberEnd::kFailed : MemberEnd::kPeerFailed;
}

std::string end_text(const comm::NodeFailure& node_failure, comm::NodeId self) {
  if (node_failure.kind == comm::NodeFailure::Kind::kDiverged && node_failure.who == self)
    return node_failure.message() +
           "; this node does not rejoin this job: check its memory and processor";
  const bool given_up = node_failure.kind == comm::NodeFailure::Kind::kPeer ||
                        node_failure.kind == comm::NodeFailure::Kind::kStall;
  if (!given_up || node_failure.who != self) return node_failure.message();
  return "the coordinator removed this node from the job: " + node_failure.message();
}

void log_next_view(const comm::NodeFailure& why, Log& log) {
  if (why.kind == comm::NodeFailure::Kind::kJoined) return log.info(why.message());
  log.warning(
      text(why.message(), "; the job continues without ",
           why.kind == comm::NodeFailure::Kind::kUnreached ? comm::name_of(why.who) : "it"));
}

}  // namespace poseidon::trainer
