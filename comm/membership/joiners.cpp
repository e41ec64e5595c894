#include "comm/membership/joiners.h"

#include <algorithm>

#include "comm/membership/admission.h"
#include "comm/wire/address.h"
#include "comm/wire/liveness.h"
#include "comm/wire/texts.h"

namespace poseidon::comm {

namespace {

/// The most notes that a joiner may send before it is a member. A correct joiner sends a few.
constexpr size_t kMaxNotes = 16;

}  // namespace

// ---- joiners until the next view

std::string Joiners::objection(Role role, const std::string& address) const {
  const uint16_t most = job_.options.max_members(role);
  if (most == 0) return "a job is already running, and its cluster.max_workers admits no joiners";
  if (!job_.has_begun()) return "the job is about to begin";
  if (job_.state() == CoordinatorState::kConcluding || job_.state() >= CoordinatorState::kFailing)
    return "the job is about to end";
  const auto coming = static_cast<size_t>(std::ranges::count_if(
      job_.joiners, [&](const auto& entry) { return entry.second.node.role == role; }));
  if (job_.members.count(role) + coming >= most)
    return text("the job already has its maximum of ", most,
                role == Role::kWorker ? " workers" : " servers");
  if (std::string why = job_.join_backoff.objection(host_of(address), job_.now()); !why.empty())
    return why;
  return "";
}

void Joiners::welcome(ConnectionId connection, const Join& join) {
  const NodeId node{join.role, job_.assign_id(join.role)};
  job_.joiners[connection] = {.node = node, .address = join.address, .progress_at = job_.now()};
  job_.welcome(connection, node);
}

void Joiners::take(ConnectionId from, const ControlMessage& message) {
  const auto found = job_.joiners.find(from);
  if (found == job_.joiners.end()) return;
  Joiner& joiner = found->second;
  if (message.is<Progress>()) {
    if (!message.as<Progress>().waits) joiner.progress_at = job_.now();
  } else if (message.is<Note>()) {
    if (joiner.notes.size() == kMaxNotes)
      return refuse(from, text("the node sent more than ", kMaxNotes, " notes"));
    joiner.notes.push_back(message.as<Note>());
  } else if (message.is<Prepared>()) {
    prepared(from, joiner, message.as<Prepared>().facts);
  } else if (message.is<Lost>()) {
    refuse(from, message.as<Lost>().failure.why);
  }
}

void Joiners::prepared(ConnectionId connection, Joiner& joiner, const std::vector<Fact>& facts) {
  const std::string why = objection(joiner, facts);
  if (!why.empty()) return refuse(connection, why);
  joiner.prepared = true;
  joiner.facts = facts;
  joiner.progress_at = job_.now();
  pause_when_due();
}

/// A member with other facts would make the job fail. So the coordinator refuses such a node while
/// it is a joiner.
std::string Joiners::objection(const Joiner& joiner, const std::vector<Fact>& facts) const {
  const MemberRecord* first = job_.members.find(NodeId{Role::kWorker, 0});
  if (joiner.node.role != Role::kWorker || first == nullptr) return "";
  const std::string different = difference(first->facts, facts);
  if (!different.empty()) return text(different, " as on worker 0");
  return job_.host.planner.objection(joiner);
}

void Joiners::node_failed(ConnectionId connection, const std::string& why) {
  const auto found = job_.joiners.find(connection);
  if (found == job_.joiners.end()) return;
  const Joiner joiner = found->second;
  job_.joiners.erase(found);
  job_.host.observer.refused(joiner.address,
                             "the node left before it became a member: " +
                                 job_.failure_reason(joiner.sent_proof, joiner.progress_at, why));
}

void Joiners::proof_arrived(ConnectionId from) {
  const auto found = job_.joiners.find(from);
  if (found != job_.joiners.end()) found->second.sent_proof = true;
}

void Joiners::refuse(ConnectionId connection, const std::string& why) {
  const auto found = job_.joiners.find(connection);
  if (found == job_.joiners.end()) return;
  const std::string address = found->second.address;
  job_.joiners.erase(found);
  job_.control.send_message(connection, Refused{why});
  job_.disconnect(connection);
  job_.host.observer.refused(address, why);
}

void Joiners::watch() {
  std::vector<ConnectionId> quiet;
  for (const auto& [connection, joiner] : job_.joiners)
    if (!joiner.prepared && job_.now() - joiner.progress_at >= job_.options.stall_timeout)
      quiet.push_back(connection);
  for (const ConnectionId connection : quiet)
    refuse(connection, text("no progress for ", seconds_text(job_.options.stall_timeout)));
  pause_when_due();
}

// ---- the pause before the next view

/// Each pause costs the members time, so nodes that arrive at about the same time join in one
/// pause.
void Joiners::pause_when_due() {
  if (job_.state() != CoordinatorState::kRunning || job_.joiners.empty()) return;
  bool all = true;
  Time since = Time::max();
  for (const auto& [connection, joiner] : job_.joiners) {
    all &= joiner.prepared;
    if (joiner.prepared) since = std::min(since, joiner.progress_at);
  }
  if (all || (since != Time::max() && job_.now() - since >= job_.options.timeout)) vote_.pause();
}

/// If all joiners have left in the meantime, the members continue in a new view without them.
void Joiners::paused(MemberRecord& member, int64_t step) {
  member.step = step;
  member.paused = true;
  if (job_.state() != CoordinatorState::kRunning ||
      !job_.members.all(Role::kWorker, &MemberRecord::paused))
    return;
  NodeFailure joined{.kind = NodeFailure::Kind::kJoined,
                     .who = {},
                     .address = "",
                     .why = "",
                     .step = step,
                     .awaited = ""};
  for (const auto& [connection, joiner] : job_.joiners) {
    if (!joiner.prepared) continue;
    joined.who = joiner.node;
    joined.address = joiner.address;
    break;
  }
  reconfiguration_.admit_joiners(joined);
}

}  // namespace poseidon::comm
