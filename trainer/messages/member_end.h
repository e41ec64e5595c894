#pragma once

#include <string>

#include "comm/wire/messages.h"
#include "core/log.h"

namespace poseidon::trainer {

/// How a process's part in a job ended; the values are exit codes.
enum class MemberEnd : int { kDone = 0, kFailed = 1, kRefused = 2, kPeerLost = 3 };

/// How a loss ends this process: an error of somebody's own is no lost peer.
MemberEnd end_of(const comm::Loss& loss);

/// What the member `self` says of the loss by which its part in a job ends: of its own, as when it
/// was stopped for a while and is back, that the others do without it.
std::string end_text(const comm::Loss& loss, comm::NodeId self);

/// Says why the job goes on in another view: without a member, or with others.
void tell_of_next_view(const comm::Loss& why, Log& log);

}  // namespace poseidon::trainer
