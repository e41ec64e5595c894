#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "comm/wire/node.h"

/// Who the ends of a connection are. Both prove all of it (comm/wire/handshake.h).
namespace poseidon::comm {

/// Random, new for each run of a coordinator; zeros: of no job yet.
using JobId = std::array<std::byte, 16>;
/// Throws RunError.
JobId make_job_id();

/// One end of a connection, to the other as the handshake has proved it.
struct PeerIdentity {
  Role role = Role::kWorker;
  int32_t rank = -1;    ///< -1: none yet, a node that joins
  uint32_t view = 0;    ///< 0 while joining
  JobId job = {};       ///< zeros while joining
  std::string address;  ///< "host:port" of the socket's other end, or as advertised
};

/// "server 1", "a worker without a rank".
std::string name_of(const PeerIdentity& node);

/// Why `caller`, who wants to talk to `called`, and `callee`, who answers, do not belong together:
/// "worker 0 was called, this is server 1"; "" when they do. Both ends ask this of each other's
/// words, so neither can be led to another than it means.
std::string mismatch(const PeerIdentity& caller, NodeId called, const PeerIdentity& callee);

}  // namespace poseidon::comm
