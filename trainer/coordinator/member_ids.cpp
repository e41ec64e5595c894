#include "trainer/coordinator/member_ids.h"

namespace poseidon::trainer {

void MemberIds::keep(const comm::Survivors& left) {
  comm::Survivors next;
  for (const uint16_t rank : left.workers)
    next.workers.push_back(of({comm::Role::kWorker, rank}).rank);
  for (const uint16_t rank : left.servers)
    next.servers.push_back(of({comm::Role::kServer, rank}).rank);
  ids_ = std::move(next);
}

}  // namespace poseidon::trainer
