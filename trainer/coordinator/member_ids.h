#pragma once

#include <vector>

#include "comm/membership/coordinator_host.h"
#include "comm/wire/node.h"

namespace poseidon::trainer {

/// Maps the present ranks of members to their first ones. Ranks change with each view. The process
/// of a member and its log file keep their first name.
class MemberIds {
 public:
  /// The first name of the member that has this rank now.
  comm::NodeId of(comm::NodeId now) const {
    const std::vector<uint16_t>& ids = ids_of(now.role);
    return {now.role, now.rank < ids.size() ? ids[now.rank] : now.rank};
  }
  /// Next view: `left` are the remaining members in order of their new ranks, followed by `joined`.
  void keep(const comm::Survivors& left, const std::vector<comm::Joiner>& joined);

 private:
  const std::vector<uint16_t>& ids_of(comm::Role role) const {
    return role == comm::Role::kWorker ? ids_.workers : ids_.servers;
  }

  comm::Survivors ids_;  ///< by rank; empty in the first view
};

}  // namespace poseidon::trainer
