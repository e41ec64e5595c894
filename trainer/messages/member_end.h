#pragma once

#include "comm/wire/messages.h"

namespace poseidon::trainer {

/// How a process's part in a job ended; the values are exit codes.
enum class MemberEnd : int { kDone = 0, kFailed = 1, kRefused = 2, kPeerLost = 3 };

/// How a loss ends this process: an error of somebody's own is no lost peer.
MemberEnd end_of(const comm::Loss& loss);

}  // namespace poseidon::trainer
