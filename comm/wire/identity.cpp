#include "comm/wire/identity.h"

#include "core/error.h"
#include "core/secret.h"

namespace poseidon::comm {

JobId make_job_id() {
  JobId id;
  fill_with_random_bytes(id);
  return id;
}

std::string name_of(const PeerIdentity& node) {
  if (node.rank >= 0) return name_of(NodeId{node.role, static_cast<uint16_t>(node.rank)});
  return text("a ", node.role == Role::kServer ? "server" : "worker", " without a rank");
}

std::string mismatch(const PeerIdentity& caller, NodeId called, const PeerIdentity& callee) {
  if (callee.role != called.role || callee.rank != called.rank)
    return text(name_of(called), " was called, this is ", name_of(callee));
  if (caller.role == Role::kCoordinator) return "a coordinator may not connect to a node";
  if (called.role == Role::kCoordinator)
    return "";  // any node may call the coordinator, to join a job
  if (caller.rank < 0) return name_of(caller) + " may connect only to the coordinator";
  if (caller.job != callee.job)
    return text(name_of(caller), " belongs to another job than ", name_of(callee));
  if (caller.view != callee.view)
    return text(name_of(caller), " has view ", caller.view, ", ", name_of(callee), " has view ",
                callee.view);
  return "";
}

}  // namespace poseidon::comm
