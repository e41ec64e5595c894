#pragma once

#include <vector>

#include "comm/membership/coordinator_host.h"
#include "comm/wire/node.h"

namespace poseidon::trainer {

/// Maps the current rank of a member to the initial one, with which the member joined. Ranks can
/// change with each view, but processes and log files keep the name with the initial rank.
class MemberIds {
 public:
  /// The role and initial rank of the member that has this role and rank now.
  comm::NodeId of(comm::NodeId now) const {
    const std::vector<uint16_t>& ids = ids_of(now.role);
    return {now.role, now.rank < ids.size() ? ids[now.rank] : now.rank};
  }
  /// Changes the ranks to those of the next view. `left` lists the previous ranks of the remaining
  /// members, in the order of their new ranks. `joined` have the ranks that follow.
  void keep(const comm::Survivors& left, const std::vector<comm::Joiner>& joined);

 private:
  const std::vector<uint16_t>& ids_of(comm::Role role) const {
    return role == comm::Role::kWorker ? ids_.workers : ids_.servers;
  }

  comm::Survivors ids_;  ///< initial ranks, by current rank; empty in the first view
};

}  // namespace poseidon::trainer
