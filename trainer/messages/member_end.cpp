#include "trainer/messages/member_end.h"

#include "core/error.h"

namespace poseidon::trainer {

MemberEnd end_of(const comm::NodeFailure& loss) {
  const bool own_error =
      loss.kind == comm::NodeFailure::Kind::kError || loss.kind == comm::NodeFailure::Kind::kDrift;
  return own_error ? MemberEnd::kFailed : MemberEnd::kPeerLost;
}

std::string end_text(const comm::NodeFailure& loss, comm::NodeId self) {
  if (loss.kind == comm::NodeFailure::Kind::kDrift && loss.who == self)
    return loss.message() + "; this node does not rejoin this job: check its memory and processor";
  const bool given_up =
      loss.kind == comm::NodeFailure::Kind::kPeer || loss.kind == comm::NodeFailure::Kind::kStall;
  if (!given_up || loss.who != self) return loss.message();
  return "the coordinator removed this node from the job: " + loss.message();
}

void tell_of_next_view(const comm::NodeFailure& why, Log& log) {
  if (why.kind == comm::NodeFailure::Kind::kJoined) return log.info(why.message());
  log.warning(
      text(why.message(), "; the job continues without ",
           why.kind == comm::NodeFailure::Kind::kUnreached ? comm::name_of(why.who) : "it"));
}

}  // namespace poseidon::trainer
