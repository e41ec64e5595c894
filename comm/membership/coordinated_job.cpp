#include "comm/membership/coordinated_job.h"

#include <algorithm>

#include "comm/wire/reachability.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

bool is_id_used(const CoordinatedJob& job, NodeId id) {
  const auto has_id = [=](const auto& entry) {
    return entry.second.node.role == id.role && entry.second.id == id.rank;
  };
  return std::ranges::any_of(job.members, has_id) ||
         std::ranges::any_of(job.joiners,
                             [=](const auto& entry) { return entry.second.node == id; });
}

}  // namespace

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

std::vector<Joiner> CoordinatedJob::begin_next_view(int64_t step) {
  control.begin_next_view();
  members.renumber();
  std::vector<Joiner> joined;
  std::erase_if(joiners, [&](const auto& entry) {
    const auto& [connection, joiner] = entry;
    if (!joiner.prepared) return false;
    members.add({.node = {joiner.node.role, static_cast<uint16_t>(members.count(joiner.node.role))},
                 .id = joiner.node.rank,
                 .connection = connection,
                 .address = joiner.address,
                 .prepared = true,
                 .sent_proof = joiner.sent_proof,
                 .facts = joiner.facts,
                 .link = {},
                 .digest = {},
                 .doing = {},
                 .progress_at = now(),
                 .left = {},
                 .stopped = {}});
    joined.push_back(joiner);
    return true;
  });
  for (auto& [node, member] : members) member.begin_view(step);
  return joined;
}

Survivors CoordinatedJob::survivors() const {
  Survivors left;
  for (const auto& [node, member] : members)
    (member.is_worker() ? left.workers : left.servers).push_back(node.rank);
  return left;
}

void CoordinatedJob::welcome(ConnectionId connection, NodeId node) const {
  control.send_message(connection,
                       Welcome{.rank = node.rank,
                               .timeout_s = std::chrono::duration<double>(options.timeout).count(),
                               .workers = std::max(options.workers, options.max_workers),
                               .servers = std::max(options.servers, options.max_servers),
                               .job = host.planner.job()});
  MtuCheck::send_proof(transport, connection, view());
}

std::string CoordinatedJob::owner_of(const std::string& address) const {
  const auto is_taken = [&](NodeId node, const std::string& by) {
    return by != address ? ""
                         : text(address, " is already the address of ", name_of(node),
                                ": set a different --advertise on each node");
  };
  for (const auto& [node, member] : members)
    if (std::string why = is_taken(node, member.address); !why.empty()) return why;
  for (const auto& [connection, joiner] : joiners)
    if (std::string why = is_taken(joiner.node, joiner.address); !why.empty()) return why;
  return "";
}

/// A member sends a large message (its MtuCheck proof) first, as soon as it receives its welcome.
std::string CoordinatedJob::failure_reason(bool sent_proof, Time since,
                                           const std::string& why) const {
  const bool was_silent = !sent_proof && now() - since >= options.timeout / 2;
  return was_silent ? text(why, ": ", kOnlySmallMessages) : why;
}

void CoordinatedJob::refuse_joiners() {
  for (const auto& [connection, joiner] : joiners) {
    control.send_message(connection, Refused{"the job has ended"});
    transport.close(connection);
  }
  joiners.clear();
}

/// Ids are assigned cyclically, so an id is reused as late as possible.
uint16_t CoordinatedJob::assign_id(Role role) {
  const uint16_t first = options.count(role);
  auto [last, is_first] = last_ids_.try_emplace(role, first);
  uint16_t id = last->second;
  if (!is_first) ++id;
  while (id < first || is_id_used(*this, {role, id})) ++id;  // after 65,535 comes 0
  return last->second = id;
}

void CoordinatedJob::disconnect(ConnectionId connection) {
  liveness.remove(connection);
  transport.close(connection);
}

int64_t CoordinatedJob::step_under_way() const {
  if (!has_begun_) return 0;
  int64_t least = step_timer.furthest_step();
  for (const auto& [node, member] : members)
    if (member.is_worker()) least = std::min(least, member.step);
  return least + 1;
}

NodeFailure CoordinatedJob::failure_of(const MemberRecord& member, NodeFailure::Kind kind,
                                       const std::string& why) const {
  NodeFailure failure = failure_of(member.node, kind, why);
  failure.address = member.address;
  return failure;
}

NodeFailure CoordinatedJob::failure_of(NodeId node, NodeFailure::Kind kind,
                                       const std::string& why) const {
  return {.kind = kind,
          .who = node,
          .address = "",
          .why = why,
          .step = step_under_way(),
          .awaited = ""};
}

}  // namespace poseidon::comm
