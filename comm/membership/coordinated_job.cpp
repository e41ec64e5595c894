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
         std::ranges::any_of(job.newcomers,
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

std::vector<Newcomer> CoordinatedJob::begin_next_view(int64_t step) {
  control.begin_next_view();
  members.renumber();
  std::vector<Newcomer> joined;
  std::erase_if(newcomers, [&](const auto& entry) {
    const auto& [connection, newcomer] = entry;
    if (!newcomer.prepared) return false;
    members.add(
        {.node = {newcomer.node.role, static_cast<uint16_t>(members.count(newcomer.node.role))},
         .id = newcomer.node.rank,
         .connection = connection,
         .address = newcomer.address,
         .prepared = true,
         .sent_proof = newcomer.sent_proof,
         .facts = newcomer.facts,
         .link = {},
         .digest = {},
         .doing = {},
         .sign_at = now(),
         .left = {},
         .stopped = {}});
    joined.push_back(newcomer);
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
  control.tell(connection,
               Welcome{.rank = node.rank,
                       .timeout_s = std::chrono::duration<double>(options.timeout).count(),
                       .workers = std::max(options.workers, options.max_workers),
                       .servers = std::max(options.servers, options.max_servers),
                       .job = host.planner.job()});
  Contact::send_proof(transport, connection, view());
}

std::string CoordinatedJob::owner_of(const std::string& address) const {
  const auto is_taken = [&](NodeId node, const std::string& by) {
    return by != address ? ""
                         : text(address, " is already the address of ", name_of(node),
                                ": set a different --advertise on each node");
  };
  for (const auto& [node, member] : members)
    if (std::string why = is_taken(node, member.address); !why.empty()) return why;
  for (const auto& [connection, newcomer] : newcomers)
    if (std::string why = is_taken(newcomer.node, newcomer.address); !why.empty()) return why;
  return "";
}

/// A member replies to its welcome at once, with a large message before anything else.
std::string CoordinatedJob::reason_of_loss(bool sent_proof, Time since,
                                           const std::string& why) const {
  const bool was_silent = !sent_proof && now() - since >= options.timeout / 2;
  return was_silent ? text(why, ": ", kOnlySmallMessages) : why;
}

void CoordinatedJob::refuse_newcomers() {
  for (const auto& [connection, newcomer] : newcomers) {
    control.tell(connection, Refused{"the job has ended"});
    transport.close(connection);
  }
  newcomers.clear();
}

/// Ids are assigned cyclically, so an id is reused as late as possible.
uint16_t CoordinatedJob::give_id(Role role) {
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
  int64_t least = pace.furthest_step();
  for (const auto& [node, member] : members)
    if (member.is_worker()) least = std::min(least, member.step);
  return least + 1;
}

NodeFailure CoordinatedJob::loss_of(const MemberRecord& member, NodeFailure::Kind kind,
                                    const std::string& why) const {
  NodeFailure loss = loss_of(member.node, kind, why);
  loss.address = member.address;
  return loss;
}

NodeFailure CoordinatedJob::loss_of(NodeId node, NodeFailure::Kind kind,
                                    const std::string& why) const {
  return {.kind = kind,
          .who = node,
          .address = "",
          .why = why,
          .step = step_under_way(),
          .awaited = ""};
}

}  // namespace poseidon::comm
