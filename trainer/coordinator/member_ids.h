#pragma once

#include <vector>

#include "comm/membership/coordinator_host.h"
#include "comm/wire/node.h"

namespace poseidon::trainer {

/// Who the members of a job are. Their ranks are given anew in each view; the process of a member,
/// and its log file, have the name by which it began.
class MemberIds {
 public:
  /// The name by which the member that has this rank now began.
  comm::NodeId of(comm::NodeId now) const {
    const std::vector<uint16_t>& ids = ids_of(now.role);
    return {now.role, now.rank < ids.size() ? ids[now.rank] : now.rank};
  }
  /// These are left, in order of the ranks that they will have, and others have joined.
  void keep(const comm::Survivors& left, const std::vector<comm::Newcomer>& joined);

 private:
  const std::vector<uint16_t>& ids_of(comm::Role role) const {
    return role == comm::Role::kWorker ? ids_.workers : ids_.servers;
  }

  comm::Survivors ids_;  ///< by rank; empty in the first view
};

}  // namespace poseidon::trainer
