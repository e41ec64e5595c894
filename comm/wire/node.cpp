#include "comm/wire/node.h"

namespace poseidon::comm {

std::string name_of(NodeId node) {
  switch (node.role) {
    case Role::kCoordinator: return "the coordinator";
    case Role::kWorker: return "worker " + std::to_string(node.rank);
    case Role::kServer: return "server " + std::to_string(node.rank);
  }
  return "a node of unknown role";
}

}  // namespace poseidon::comm
