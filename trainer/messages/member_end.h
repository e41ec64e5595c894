#pragma once

#include <string>

#include "comm/wire/messages.h"
#include "core/log.h"

namespace poseidon::trainer {

/// How a member's process ended its part in a job; the values are exit codes. kRefused: the
/// coordinator did not admit the process.
enum class MemberEnd : int { kDone = 0, kFailed = 1, kRefused = 2, kPeerFailed = 3 };

/// The outcome of members after a node failure. A local error of a node and replica divergence are
/// kFailed; all other failures are kPeerFailed.
MemberEnd end_of(const comm::NodeFailure& node_failure);

/// Message of member `self` about the failure that ends its part in the job. If the coordinator has
/// removed `self`, the message says so. This happens, for example, to a process that was suspended
/// for some time. If the replica of `self` has diverged, the message says that `self` does not
/// rejoin.
std::string end_text(const comm::NodeFailure& node_failure, comm::NodeId self);

/// Logs why the job continues in another view: a member has failed or left, or nodes have joined.
void log_next_view(const comm::NodeFailure& why, Log& log);

}  // namespace poseidon::trainer
