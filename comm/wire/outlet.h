#pragma once

#include "comm/wire/node.h"
#include "comm/wire/transport.h"

namespace poseidon::comm {

/// Takes the data plane's frames for the nodes of the job.
class Outlet {
 public:
  virtual ~Outlet() = default;
  virtual void send(NodeId to, const FrameHeader& header, Payload payload, Priority priority) = 0;
};

/// What happens to a frame whose header has come: it is accepted, dropped or refused.
struct Placement {
  bool accepted = false;
  std::span<std::byte> memory = {};  ///< the destination of an accepted frame's body
  std::string fault = {};            ///< how a refused frame breaks the protocol; its peer is lost

  static Placement into(std::span<std::byte> memory) {
    return {.accepted = true, .memory = memory};
  }
  /// For a repeated or outdated frame, whose body is read and dropped.
  static Placement dropped() { return {}; }
  static Placement refused(std::string fault) { return {.fault = std::move(fault)}; }
};

}  // namespace poseidon::comm
