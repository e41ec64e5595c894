#include "comm/membership/newcomers.h"

#include <algorithm>

#include "comm/membership/admission.h"
#include "comm/wire/address.h"
#include "comm/wire/liveness.h"
#include "comm/wire/texts.h"

namespace poseidon::comm {

namespace {

/// The most notes that a joiner may send before it is a member. A correct joiner sends a few.
constexpr size_t kMostNotes = 16;

}  // namespace

// ---- until the joiner is prepared

std::string Newcomers::objection(Role role, const std::string& address) const {
  const uint16_t most = job_.options.most(role);
  if (most == 0) return "a job is already running, and its cluster.max_workers admits no joiners";
  if (!job_.has_begun()) return "the job is about to begin";
  if (job_.state() == CoordinatorState::kConcluding || job_.state() >= CoordinatorState::kFailing)
    return "the job is about to end";
  const auto coming = static_cast<size_t>(std::ranges::count_if(
      job_.newcomers, [&](const auto& entry) { return entry.second.node.role == role; }));
  if (job_.members.count(role) + coming >= most)
    return text("the job already has its maximum of ", most,
                role == Role::kWorker ? " workers" : " servers");
  if (std::string why = job_.failed_joins.objection(host_of(address), job_.now()); !why.empty())
    return why;
  return "";
}

void Newcomers::welcome(ConnectionId connection, const Join& join) {
  const NodeId node{join.role, job_.give_id(join.role)};
  job_.newcomers[connection] = {.node = node, .address = join.address, .sign_at = job_.now()};
  job_.welcome(connection, node);
}

void Newcomers::take(ConnectionId from, const ControlMessage& message) {
  const auto found = job_.newcomers.find(from);
  if (found == job_.newcomers.end()) return;
  Newcomer& newcomer = found->second;
  if (message.is<Progress>()) {
    if (!message.as<Progress>().waits) newcomer.sign_at = job_.now();
  } else if (message.is<Note>()) {
    if (newcomer.notes.size() == kMostNotes)
      return refuse(from, text("the node sent more than ", kMostNotes, " notes"));
    newcomer.notes.push_back(message.as<Note>());
  } else if (message.is<Prepared>()) {
    prepared(from, newcomer, message.as<Prepared>().facts);
  } else if (message.is<Lost>()) {
    refuse(from, message.as<Lost>().loss.why);
  }
}

void Newcomers::prepared(ConnectionId connection, Newcomer& newcomer,
                         const std::vector<Fact>& facts) {
  const std::string why = objection(newcomer, facts);
  if (!why.empty()) return refuse(connection, why);
  newcomer.prepared = true;
  newcomer.facts = facts;
  newcomer.sign_at = job_.now();
  pause_when_due();
}

/// A node that differs from the members would be an error of the whole job.
std::string Newcomers::objection(const Newcomer& newcomer, const std::vector<Fact>& facts) const {
  const MemberRecord* first = job_.members.find(NodeId{Role::kWorker, 0});
  if (newcomer.node.role != Role::kWorker || first == nullptr) return "";
  const std::string different = difference(first->facts, facts);
  if (!different.empty()) return text(different, " as on worker 0");
  return job_.host.planner.objection(newcomer);
}

void Newcomers::lose(ConnectionId connection, const std::string& why) {
  const auto found = job_.newcomers.find(connection);
  if (found == job_.newcomers.end()) return;
  const Newcomer newcomer = found->second;
  job_.newcomers.erase(found);
  job_.host.observer.refused(newcomer.address,
                             "the node left before it became a member: " +
                                 job_.reason_of_loss(newcomer.sent_proof, newcomer.sign_at, why));
}

void Newcomers::take_proof(ConnectionId from) {
  const auto found = job_.newcomers.find(from);
  if (found != job_.newcomers.end()) found->second.sent_proof = true;
}

void Newcomers::refuse(ConnectionId connection, const std::string& why) {
  const auto found = job_.newcomers.find(connection);
  if (found == job_.newcomers.end()) return;
  const std::string address = found->second.address;
  job_.newcomers.erase(found);
  job_.control.tell(connection, Refused{why});
  job_.disconnect(connection);
  job_.host.observer.refused(address, why);
}

void Newcomers::watch() {
  std::vector<ConnectionId> quiet;
  for (const auto& [connection, newcomer] : job_.newcomers)
    if (!newcomer.prepared && job_.now() - newcomer.sign_at >= job_.options.stall_timeout)
      quiet.push_back(connection);
  for (const ConnectionId connection : quiet)
    refuse(connection, text("no progress for ", seconds_text(job_.options.stall_timeout)));
  pause_when_due();
}

// ---- into the next view

/// Each pause costs the members time, so nodes that arrive at about the same time join together.
void Newcomers::pause_when_due() {
  if (job_.state() != CoordinatorState::kRunning || job_.newcomers.empty()) return;
  bool all = true;
  Time since = Time::max();
  for (const auto& [connection, newcomer] : job_.newcomers) {
    all &= newcomer.prepared;
    if (newcomer.prepared) since = std::min(since, newcomer.sign_at);
  }
  if (all || (since != Time::max() && job_.now() - since >= job_.options.timeout)) vote_.pause();
}

/// If all joiners have left in the meantime, the members continue in a new view without them.
void Newcomers::paused(MemberRecord& member, int64_t step) {
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
  for (const auto& [connection, newcomer] : job_.newcomers) {
    if (!newcomer.prepared) continue;
    joined.who = newcomer.node;
    joined.address = newcomer.address;
    break;
  }
  regrouping_.let_in(joined);
}

}  // namespace poseidon::comm
