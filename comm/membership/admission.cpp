#include "comm/membership/admission.h"

#include <algorithm>

#include "comm/membership/joiners.h"
#include "comm/wire/texts.h"
#include "core/counted.h"

namespace poseidon::comm {

namespace {

/// Limits on a node's data about itself, which are stored, shown and sent to all other nodes.
constexpr size_t kMaxAddressBytes = 300, kMaxFacts = 16, kMaxFactBytes = 1024;
/// The most bytes of a fact in a message.
constexpr size_t kMaxFactShown = 100;
/// The most connections of authenticated nodes that have not requested to join. If another node
/// connects, the oldest of these connections is refused.
constexpr size_t kMaxPendingJoins = 256;

std::string shown_fact(const std::string& value) { return shortened(value, kMaxFactShown); }

/// Describes the part of a request that exceeds a limit; "" if no part does.
std::string excess(const Join& join) {
  if (join.address.size() > kMaxAddressBytes)
    return text("the node's address has ", join.address.size(), " bytes, expected at most ",
                kMaxAddressBytes);
  if (join.facts.size() > kMaxFacts)
    return text("the node's join message has ", join.facts.size(),
                " entries in \"facts\", expected at most ", kMaxFacts);
  for (const Fact& fact : join.facts)
    if (const size_t bytes = fact.name.size() + fact.value.size(); bytes > kMaxFactBytes)
      return text("an entry in \"facts\" of the node's join message has ", bytes,
                  " bytes, expected at most ", kMaxFactBytes);
  return "";
}

}  // namespace

std::string difference(const std::vector<Fact>& expected, const std::vector<Fact>& got) {
  for (const Fact& want : expected) {
    const auto have = std::ranges::find(got, want.name, &Fact::name);
    if (have == got.end()) return text(want.name, " is missing, expected ", shown_fact(want.value));
    if (have->value != want.value)
      return text(have->name, " is ", shown_fact(have->value), ", expected ",
                  shown_fact(want.value));
  }
  for (const Fact& have : got)
    if (std::ranges::find(expected, have.name, &Fact::name) == expected.end())
      return text(shown_fact(have.name), " is ", shown_fact(have.value),
                  ", expected no such value");
  return "";
}

void Admission::begin() {
  job_.enter(CoordinatorState::kGathering);
  begun_at_ = job_.now();
  if (job_.options.gather.count() > 0) job_.transport.wake_at(begun_at_ + job_.options.gather);
}

void Admission::opened(ConnectionId connection, const PeerIdentity& peer) {
  job_.liveness.add(connection, job_.now());
  if (pending_joins_.size() >= kMaxPendingJoins) refuse_oldest();
  pending_joins_[connection] = {.role = peer.role, .address = peer.address, .since = job_.now()};
}

void Admission::join(ConnectionId connection, const Join& join) {
  const auto pending_join = pending_joins_.find(connection);
  if (pending_join == pending_joins_.end()) return;
  std::string why = excess(join);
  if (!why.empty()) return refuse(connection, why);
  why = objection(pending_join->second, join);
  if (!why.empty()) return refuse(connection, join.address, why);
  if (job_.state() != CoordinatorState::kGathering) {
    pending_joins_.erase(pending_join);
    return joiners_.welcome(connection, join);
  }
  const std::optional<uint16_t> rank = free_rank(join.role, join.wanted_rank);
  if (rank) return welcome(connection, join, {join.role, *rank});
  refuse(connection, join.address,
         text("the job already has all ", job_.options.count(join.role),
              join.role == Role::kWorker ? " workers" : " servers"));
}

/// Returns the reason why the job cannot admit the node; "" if it can. While the job gathers
/// members, join() checks separately whether a rank is free.
std::string Admission::objection(const PendingJoin& pending_join, const Join& join) const {
  if (join.role == Role::kCoordinator) return "a job has only one coordinator";
  if (join.role != pending_join.role)
    return "the node requests a role other than that of its handshake";
  if (job_.blocked_hosts.contains(join.address)) return BlockedHosts::kWhy;
  if (job_.state() != CoordinatorState::kGathering)
    if (std::string why = joiners_.objection(join.role, join.address); !why.empty()) return why;
  if (std::string why = job_.owner_of(join.address); !why.empty()) return why;
  return difference(job_.options.facts, join.facts);
}

void Admission::welcome(ConnectionId connection, const Join& join, NodeId node) {
  pending_joins_.erase(connection);
  job_.members.add({.node = node,
                    .id = node.rank,
                    .connection = connection,
                    .address = join.address,
                    .facts = {},
                    .link = {},
                    .digest = {},
                    .doing = {},
                    .progress_at = job_.now(),
                    .left = {},
                    .stopped = {}});
  job_.welcome(connection, node);
  if (missing().empty()) job_.enter(CoordinatorState::kPreparing);
  job_.host.observer.joined(node, join.address);
}

void Admission::refuse(ConnectionId connection, const std::string& why) {
  const auto pending_join = pending_joins_.find(connection);
  refuse(connection, pending_join == pending_joins_.end() ? "" : pending_join->second.address, why);
}

void Admission::refuse(ConnectionId connection, const std::string& address,
                       const std::string& why) {
  job_.control.send_message(connection, Refused{why});
  pending_joins_.erase(connection);
  job_.disconnect(connection);
  job_.host.observer.refused(address, why);
}

std::optional<uint16_t> Admission::free_rank(Role role, int64_t wanted) const {
  const uint16_t count = job_.options.count(role);
  const auto is_free = [&](int64_t rank) {
    return !job_.members.contains({role, static_cast<uint16_t>(rank)});
  };
  if (wanted >= 0 && wanted < count && is_free(wanted)) return static_cast<uint16_t>(wanted);
  for (uint16_t rank = 0; rank < count; ++rank)
    if (is_free(rank)) return rank;
  return std::nullopt;
}

void Admission::refuse_oldest() {
  const auto oldest = std::ranges::min_element(
      pending_joins_, {}, [](const auto& entry) { return entry.second.since; });
  refuse(oldest->first, text("the node has not requested to join, and ", kMaxPendingJoins,
                             " other connections are newer"));
}

/// A connected node that does not request to join occupies a connection that other nodes may need.
void Admission::watch() {
  std::vector<ConnectionId> late;
  for (const auto& [connection, pending_join] : pending_joins_)
    if (job_.now() - pending_join.since >= job_.options.timeout) late.push_back(connection);
  for (ConnectionId connection : late)
    refuse(connection,
           text("the node did not request to join within ", seconds_text(job_.options.timeout)));
}

/// Any rank may be missing, so the present members are renumbered. Nodes that arrive later join the
/// running job.
bool Admission::begins_without_missing() {
  const CoordinatorOptions& options = job_.options;
  if (job_.state() != CoordinatorState::kGathering || options.gather.count() == 0 ||
      job_.now() - begun_at_ < options.gather)
    return false;
  const Survivors there = job_.survivors();
  if (there.workers.size() < std::max<size_t>(options.min_workers, 1) || there.servers.empty())
    return false;
  job_.members.renumber();
  job_.host.planner.renumbered(there);
  job_.enter(CoordinatorState::kPreparing);
  return true;
}

void Admission::close() {
  for (const auto& [connection, pending_join] : pending_joins_) {
    job_.control.send_message(connection, Refused{"the job has ended"});
    job_.transport.close(connection);
  }
  pending_joins_.clear();
}

std::string Admission::missing() const {
  const size_t workers = job_.options.workers - job_.members.count(Role::kWorker);
  const size_t servers = job_.options.servers - job_.members.count(Role::kServer);
  std::string out;
  if (workers > 0) out = counted(workers, "worker");
  if (servers > 0) out += text(out.empty() ? "" : " and ", counted(servers, "server"));
  return out;
}

std::optional<NodeId> Admission::first_missing() const {
  for (const Role role : {Role::kWorker, Role::kServer})
    for (uint16_t rank = 0; rank < job_.options.count(role); ++rank)
      if (!job_.members.contains({role, rank})) return NodeId{role, rank};
  return std::nullopt;
}

}  // namespace poseidon::comm
