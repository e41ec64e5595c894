#include "comm/membership/coordinated_job.h"

#include <algorithm>

namespace poseidon::comm {

CoordinatedJob::CoordinatedJob(const CoordinatorOptions& options_, Transport& transport_,
                               const CoordinatorHost& host_)
    : options(options_),
      transport(transport_),
      host(host_),
      control(transport),
      members(control),
      liveness(options.timeout) {}

void CoordinatedJob::enter(State state) {
  state_ = state;
  entered_at_ = now();
}

void CoordinatedJob::ask(State state, uint16_t worker) {
  asked_ = worker;
  enter(state);
}

void CoordinatedJob::begin_next_view(int64_t step) {
  control.begin_next_view();
  members.renumber();
  for (auto& [node, member] : members) member.begin_view(step);
}

void CoordinatedJob::disconnect(ConnectionId connection) {
  liveness.remove(connection);
  transport.close(connection);
}

int64_t CoordinatedJob::step_under_way() const {
  if (!has_begun_) return 0;
  int64_t least = pace.furthest_step();
  for (const auto& [node, member] : members)
    if (member.is_worker()) least = std::min(least, member.step);
  return least + 1;
}

Loss CoordinatedJob::loss_of(const MemberRecord& member, Loss::Kind kind,
                             const std::string& why) const {
  Loss loss = loss_of(member.node, kind, why);
  loss.address = member.address;
  return loss;
}

Loss CoordinatedJob::loss_of(NodeId node, Loss::Kind kind, const std::string& why) const {
  return {.kind = kind,
          .who = node,
          .address = "",
          .why = why,
          .step = step_under_way(),
          .awaited = ""};
}

}  // namespace poseidon::comm
