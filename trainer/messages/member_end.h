#pragma once

#include <string>

#include "comm/wire/messages.h"
#include "core/log.h"

namespace poseidon::trainer {

/// Outcome of a process's part in a job; the values are exit codes.
enum class MemberEnd : int { kDone = 0, kFailed = 1, kRefused = 2, kPeerFailed = 3 };

/// The outcome for a node failure. A node's own error or replica divergence is kFailed, not
/// kPeerFailed.
MemberEnd end_of(const comm::NodeFailure& node_failure);

/// Message of member `self` about the failure that ends its part in the job. If the coordinator has
/// removed `self`, for example after it was stopped for a while, the message says so.
std::string end_text(const comm::NodeFailure& node_failure, comm::NodeId self);

/// Logs why the job continues in another view: a member has failed, or nodes have joined.
void log_next_view(const comm::NodeFailure& why, Log& log);

}  // namespace poseidon::trainer
