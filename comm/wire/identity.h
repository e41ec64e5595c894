#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "comm/wire/node.h"

/// The identities of a connection's two ends, which the handshake proves (comm/wire/handshake.h).
namespace poseidon::comm {

/// The random identifier of a job, new for each run of a coordinator; zeros before a node has a
/// job.
using JobId = std::array<std::byte, 16>;
/// Makes a random identifier. Throws RunError when the system's generator fails.
JobId make_job_id();

/// The identity of one end of a connection. The handshake proves all of it except the address.
struct PeerIdentity {
  Role role = Role::kWorker;
  int32_t rank = -1;    ///< -1: a joining node without a rank
  uint32_t view = 0;    ///< 0 while joining
  JobId job = {};       ///< zeros while joining
  std::string address;  ///< "host:port" of the socket's other end, or as advertised
};

/// "server 1", "a worker without a rank".
std::string name_of(const PeerIdentity& node);

/// Returns why `caller`, which connects to `called`, does not match `callee`, which accepts the
/// connection: "worker 0 was called, this is server 1". "" if they match. Both ends check each
/// other's claims with this function, so neither accepts a node other than the intended one.
std::string mismatch(const PeerIdentity& caller, NodeId called, const PeerIdentity& callee);

}  // namespace poseidon::comm
