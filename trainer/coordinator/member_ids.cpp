#include "trainer/coordinator/member_ids.h"

namespace poseidon::trainer {

void MemberIds::keep(const comm::Survivors& left, const std::vector<comm::Joiner>& joined) {
  comm::Survivors next;
  for (const uint16_t rank : left.workers)
    next.workers.push_back(of({comm::Role::kWorker, rank}).rank);
  for (const uint16_t rank : left.servers)
    next.servers.push_back(of({comm::Role::kServer, rank}).rank);
  for (const comm::Joiner& joiner : joined)
    (joiner.node.role == comm::Role::kWorker ? next.workers : next.servers)
        .push_back(joiner.node.rank);
  ids_ = std::move(next);
}

}  // namespace poseidon::trainer
