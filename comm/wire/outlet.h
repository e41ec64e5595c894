#pragma once

#include "comm/wire/node.h"
#include "comm/wire/transport.h"

namespace poseidon::comm {

/// Sends bulk frames to the nodes of the job.
class Outlet {
 public:
  virtual ~Outlet() = default;
  virtual void send(NodeId to, const FrameHeader& header, Payload payload, Priority priority) = 0;
};

/// The decision on a frame after its header arrives: accept, drop or reject.
struct Destination {
  bool accepted = false;
  std::span<std::byte> memory = {};  ///< the destination of an accepted frame's body
  std::string fault = {};            ///< why the frame is rejected; its sender counts as failed

  static Destination into(std::span<std::byte> memory) {
    return {.accepted = true, .memory = memory};
  }
  /// For a repeated or outdated frame, whose body is read and dropped.
  static Destination dropped() { return {}; }
  static Destination refused(std::string fault) { return {.fault = std::move(fault)}; }
};

}  // namespace poseidon::comm
