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
    return loss.message() +
           "; this node takes no part in this job again: check its memory and its processor";
  const bool given_up =
      loss.kind == comm::NodeFailure::Kind::kPeer || loss.kind == comm::NodeFailure::Kind::kStall;
  if (!given_up || loss.who != self) return loss.message();
  return "the others do without this node, which is outdated from here on: " + loss.message();
}

void tell_of_next_view(const comm::NodeFailure& why, Log& log) {
  if (why.kind == comm::NodeFailure::Kind::kJoined) return log.info(why.message());
  log.warning(
      text(why.message(), "; the job goes on without ",
           why.kind == comm::NodeFailure::Kind::kUnreached ? comm::name_of(why.who) : "it"));
}

}  // namespace poseidon::trainer
