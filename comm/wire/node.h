#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace poseidon::comm {

enum class Role : uint8_t { kCoordinator = 0, kWorker = 1, kServer = 2 };

/// One process of a cluster. Ranks count from 0 within a role; the coordinator has rank 0.
struct NodeId {
  Role role = Role::kCoordinator;
  uint16_t rank = 0;
  auto operator<=>(const NodeId&) const = default;
};

/// The name of a node in messages: "the coordinator", "worker 2", "server 0".
std::string name_of(NodeId node);

}  // namespace poseidon::comm
