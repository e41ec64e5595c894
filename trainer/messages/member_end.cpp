#include "trainer/messages/member_end.h"

namespace poseidon::trainer {

MemberEnd end_of(const comm::Loss& loss) {
  const bool own_error =
      loss.kind == comm::Loss::Kind::kError || loss.kind == comm::Loss::Kind::kDrift;
  return own_error ? MemberEnd::kFailed : MemberEnd::kPeerLost;
}

}  // namespace poseidon::trainer
