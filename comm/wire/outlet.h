#pragma once

#include "comm/wire/node.h"
#include "comm/wire/transport.h"

namespace poseidon::comm {

/// Where the data plane hands over frames for a node of the job.
class Outlet {
 public:
  virtual ~Outlet() = default;
  virtual void send(NodeId to, const FrameHeader& header, Payload payload, Priority priority) = 0;
};

/// What becomes of a frame whose header has come.
struct Placement {
  bool accepted = false;
  std::span<std::byte> memory = {};  ///< of an accepted frame: where its body shall go
  std::string fault = {};            ///< of a refused one: against the protocol, the peer is lost

  static Placement into(std::span<std::byte> memory) {
    return {.accepted = true, .memory = memory};
  }
  /// A repeated or outdated frame: its body is read and dropped.
  static Placement dropped() { return {}; }
  static Placement refused(std::string fault) { return {.fault = std::move(fault)}; }
};

}  // namespace poseidon::comm
