// The coordinator up to the first step: who takes part, what the link is, the plan.

#include <algorithm>

#include "comm/membership/coordinator.h"
#include "comm/membership/link_probe.h"
#include "comm/wire/words.h"
#include "core/counted.h"

namespace poseidon::comm {

void Coordinator::begin() {
  enter(State::kGathering);
  wake();
}

// ---- gathering

void Coordinator::opened(ConnectionId connection, const PeerIdentity& peer) {
  if (state_ == State::kEnded) return transport_.close(connection);
  liveness_.add(connection, transport_.now());
  strangers_[connection] = {.role = peer.role, .address = peer.address, .since = transport_.now()};
}

void Coordinator::let_in(ConnectionId connection, const Join& join) {
  const auto refuse_it = [&](const std::string& why) { refuse(connection, join.address, why); };
  if (state_ != State::kGathering) return refuse_it("a job is running already");
  if (join.role == Role::kCoordinator) return refuse_it("there is one coordinator");
  if (join.role != strangers_.at(connection).role)
    return refuse_it("it asks for another role than it has proved");
  const std::string different = difference(options_.facts, join.facts);
  if (!different.empty()) return refuse_it(different);
  const std::optional<uint16_t> rank = free_rank(join.role, join.wanted_rank);
  if (!rank)
    return refuse_it(text("all ", join.role == Role::kWorker ? options_.workers : options_.servers,
                          join.role == Role::kWorker ? " workers" : " servers",
                          " of the job are there already"));
  strangers_.erase(connection);
  const NodeId node{join.role, *rank};
  members_[node] = {.node = node,
                    .connection = connection,
                    .address = join.address,
                    .facts = {},
                    .digest = {},
                    .doing = {},
                    .sign_at = transport_.now(),
                    .stopped = {}};
  tell(connection, Welcome{.rank = *rank,
                           .timeout_s = std::chrono::duration<double>(options_.timeout).count(),
                           .job = host_.job()});
  if (missing().empty()) enter(State::kPreparing);
  host_.joined(node, join.address);
}

void Coordinator::refuse(ConnectionId connection, const std::string& address,
                         const std::string& why) {
  tell(connection, Refused{why});
  liveness_.remove(connection);
  strangers_.erase(connection);
  transport_.close(connection);
  host_.refused(address, why);
}

std::optional<uint16_t> Coordinator::free_rank(Role role, int64_t wanted) const {
  const uint16_t count = role == Role::kWorker ? options_.workers : options_.servers;
  if (wanted >= 0 && wanted < count && !members_.contains({role, static_cast<uint16_t>(wanted)}))
    return static_cast<uint16_t>(wanted);
  for (uint16_t rank = 0; rank < count; ++rank)
    if (!members_.contains({role, rank})) return rank;
  return std::nullopt;
}

/// "threads is 4, expected 2"; "" when nothing differs.
std::string Coordinator::difference(const std::vector<Fact>& expected,
                                    const std::vector<Fact>& got) const {
  for (const Fact& want : expected) {
    const auto have = std::ranges::find(got, want.name, &Fact::name);
    if (have == got.end()) return text(want.name, " is not told, expected ", want.value);
    if (have->value != want.value)
      return text(have->name, " is ", have->value, ", expected ", want.value);
  }
  for (const Fact& have : got)
    if (std::ranges::find(expected, have.name, &Fact::name) == expected.end())
      return text(have.name, " is ", have.value, ", expected nothing of that name");
  return "";
}

std::string Coordinator::missing() const {
  std::map<Role, size_t> there;
  for (const auto& [node, member] : members_) ++there[node.role];
  const size_t workers = options_.workers - there[Role::kWorker];
  const size_t servers = options_.servers - there[Role::kServer];
  std::string out;
  if (workers > 0) out = counted(workers, "worker");
  if (servers > 0) out += text(out.empty() ? "" : " and ", counted(servers, "server"));
  return out;
}

void Coordinator::publish_when_prepared() {
  if (state_ != State::kPreparing || !all(Role::kWorker, &MemberState::prepared) ||
      !all(Role::kServer, &MemberState::prepared))
    return;
  if (!same_facts()) return;
  keeper_ = host_.fetch_kept_step();
  if (keeper_) return enter(State::kFetching);
  if (options_.workers > 1 && host_.wants_link())
    measure_link();
  else
    publish();
}

/// Where the worker that was asked is lost meanwhile, another may have to be.
void Coordinator::fetched() {
  if (state_ != State::kFetching) return;
  enter(State::kPreparing);
  publish_when_prepared();
}

std::vector<RosterEntry> Coordinator::roster() const {
  std::vector<RosterEntry> roster;
  for (const auto& [node, member] : members_)
    roster.push_back({node.role, node.rank, member.address});
  return roster;
}

std::vector<std::string> Coordinator::worker_hosts() const {
  std::vector<std::string> hosts;
  for (const auto& [node, member] : members_)
    if (node.role == Role::kWorker) hosts.push_back(host_of(member.address));
  return hosts;
}

void Coordinator::measure_link() {
  enter(State::kMeasuring);
  const std::vector<uint16_t> to = probe_ring(worker_hosts());
  for (uint16_t rank = 0; rank < to.size(); ++rank) {
    const auto from = std::find(to.begin(), to.end(), rank) - to.begin();
    tell(members_.at({Role::kWorker, rank}).connection,
         Measure{.view = options_.view, .roster = roster(), .to = to[rank], .from = from});
  }
}

/// Nobody sends before everybody listens.
void Coordinator::probe_when_met() {
  if (state_ != State::kMeasuring || !all(Role::kWorker, &MemberState::met)) return;
  for (const auto& [node, member] : members_)
    if (node.role == Role::kWorker) tell(member.connection, Probe{});
}

void Coordinator::publish_when_measured() {
  if (state_ != State::kMeasuring) return;
  double slowest = 0;
  for (const auto& [node, member] : members_) {
    if (node.role != Role::kWorker) continue;
    if (member.link_mbps <= 0) return;
    slowest = slowest > 0 ? std::min(slowest, member.link_mbps) : member.link_mbps;
  }
  const std::vector<std::string> hosts = worker_hosts();
  const bool one_host = std::count(hosts.begin(), hosts.end(), hosts[0]) == options_.workers;
  host_.measured_link(rounded_mbps(slowest), one_host);
  publish();
}

void Coordinator::publish() {
  enter(State::kConnecting);
  tell_all(Planned{.view = options_.view,
                   .roster = roster(),
                   .plan = host_.plan(members_.at({Role::kWorker, 0}).facts)});
}

/// What follows from the job and each worker's data must be the same on all of them.
bool Coordinator::same_facts() {
  const MemberState& first = members_.at({Role::kWorker, 0});
  for (const auto& [node, member] : members_) {
    if (node.role != Role::kWorker) continue;
    const std::string different = difference(first.facts, member.facts);
    if (different.empty()) continue;
    accuse(loss_of(member, Loss::Kind::kError, text("its ", different, " as on worker 0")));
    return false;
  }
  return true;
}

void Coordinator::start_when_ready() {
  if (state_ != State::kConnecting || !all(Role::kWorker, &MemberState::ready) ||
      !all(Role::kServer, &MemberState::ready))
    return;
  Digests digests;
  for (const auto& [node, member] : members_)
    if (node.role == Role::kWorker) digests[node.rank] = member.digest;
  if (!replicas_are_equal(host_.first_step(), digests)) return;
  enter(State::kRunning);
  last_step_at_ = transport_.now();
  last_step_ = host_.first_step();
  for (auto& [node, member] : members_) member.step = last_step_;
  host_.started();
  tell_all(Start{last_step_});
}

void Coordinator::report_absent(NodeId node, const std::string& why) {
  if (state_ != State::kGathering || members_.contains(node)) return;
  accuse({.kind = Loss::Kind::kPeer,
          .who = node,
          .address = "",
          .why = why,
          .step = 0,
          .awaited = ""});
}

/// Whoever has come in and does not ask to take part holds what others may need.
void Coordinator::watch_strangers() {
  std::vector<ConnectionId> late;
  for (const auto& [connection, stranger] : strangers_)
    if (transport_.now() - stranger.since >= options_.timeout) late.push_back(connection);
  for (ConnectionId connection : late)
    refuse(connection, strangers_.at(connection).address,
           text("it did not ask to take part within ", seconds_text(options_.timeout)));
}

/// Who has not joined in time is lost, the first of them by name.
void Coordinator::give_up_gathering() {
  for (const auto& [role, count] :
       {std::pair(Role::kWorker, options_.workers), {Role::kServer, options_.servers}})
    for (uint16_t rank = 0; rank < count; ++rank)
      if (!members_.contains({role, rank}))
        return report_absent({role, rank},
                             text("it did not join within ", seconds_text(options_.gather_timeout),
                                  "; missing: ", missing()));
}

}  // namespace poseidon::comm
