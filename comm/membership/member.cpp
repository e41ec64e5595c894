#include "comm/membership/member.h"

#include <set>

#include "comm/wire/mutation.h"
#include "comm/wire/words.h"
#include "core/error.h"

namespace poseidon::comm {

using namespace std::chrono_literals;

namespace {

constexpr Time kFirstPause = 100ms, kLongestPause = 2s, kPeerPause = 200ms;
/// Until the coordinator has told what the job's is.
constexpr Time kDefaultTimeout = 10s;

/// In a planning run bodies have lengths only: a place that is there, and is never written to.
std::span<std::byte> nowhere(uint64_t bytes) {
  static std::byte nothing;
  return {&nothing, bytes};
}

}  // namespace

Member::Member(const Options& options, Transport& transport, MemberHost& host)
    : options_(options),
      transport_(transport),
      host_(host),
      liveness_(std::max(kDefaultTimeout, options.join_timeout)) {}

template <class Message>
void Member::tell(const Message& message, Priority priority) {
  if (coordinator_there_)
    transport_.send(coordinator_, {.kind = FrameKind::kControl, .view = view()},
                    payload_of(encode_message(message)), priority);
}

// ---- joining

void Member::join() {
  const Time begin = transport_.now() + options_.pause;
  seek_until_ = options_.join_timeout.count() > 0 ? begin + options_.join_timeout : Time{0};
  seek_pause_ = kFirstPause;
  if (options_.pause.count() == 0) {
    seek();
  } else {
    seek_at_ = begin;
    transport_.wake_at(seek_at_);
  }
  wake();
}

void Member::seek() {
  seek_at_ = Time{0};
  coordinator_ = transport_.connect(
      options_.coordinator,
      {.role = options_.role, .rank = -1, .view = 0, .address = options_.address}, NodeId{});
}

void Member::seek_again(const std::string& why) {
  const Time now = transport_.now();
  if (seek_until_.count() > 0 && now >= seek_until_) {
    end();
    host_.refused(text("the coordinator at ", options_.coordinator, " cannot be reached: ", why));
    return;
  }
  if (why != sought_in_vain_)
    host_.unreachable(text("the coordinator at ", options_.coordinator, " cannot be reached: ", why,
                           "; trying again"));
  sought_in_vain_ = why;
  state_ = State::kSeeking;
  seek_at_ = now + seek_pause_;
  seek_pause_ = std::min(2 * seek_pause_, kLongestPause);
  transport_.wake_at(seek_at_);
}

void Member::opened(ConnectionId connection, const PeerIdentity& peer) {
  if (state_ == State::kEnded) return transport_.close(connection);
  liveness_.add(connection, transport_.now());
  if (connection == coordinator_) {
    coordinator_there_ = true;
    state_ = State::kJoining;
    self_ = {.role = options_.role,
             .rank = -1,
             .view = peer.view,
             .job = peer.job,
             .address = options_.address};
    tell(Join{.role = options_.role,
              .wanted_rank = options_.wanted_rank,
              .address = options_.address,
              .facts = options_.facts});
    return;
  }
  connecting_.erase(connection);
  if (!refusal(peer).empty()) return drop(connection);
  const NodeId node = node_of(peer);
  connection_of_[node] = connection;
  node_of_[connection] = node;
  say_met_when_complete();
  say_ready_when_complete();
}

std::string Member::refusal(const PeerIdentity& caller) const {
  const NodeId node = node_of(caller);
  if (state_ == State::kEnded) return "the job is over";
  if (!roster_.empty() && !roster_.contains(node))
    return name_of(node) + " is no member of this job";
  if (connection_of_.contains(node)) return name_of(node) + " is connected already";
  return "";
}

void Member::drop(ConnectionId connection) {
  liveness_.remove(connection);
  transport_.close(connection);
}

void Member::control(const ControlMessage& message) {
  if (message.is<Refused>() && state_ == State::kJoining) {
    end();
    host_.refused(message.as<Refused>().why);
  } else if (message.is<Welcome>() && state_ == State::kJoining) {
    const auto welcome = message.as<Welcome>();
    state_ = State::kPreparing;
    // All members are welcome before any of them is told where the others are.
    rank_ = static_cast<uint16_t>(welcome.rank);
    self_.rank = rank_;
    transport_.present_as(self_);
    liveness_.set_timeout(
        std::chrono::duration_cast<Time>(std::chrono::duration<double>(welcome.timeout_s)));
    transport_.wake_at(transport_.now());
    host_.welcomed(rank_, welcome.job);
  } else if (message.is<Measure>() && state_ == State::kPreparing && !probe_) {
    measure(message.as<Measure>());
  } else if (message.is<Probe>() && met_) {
    probe_->begin();
  } else if (message.is<Planned>() && state_ == State::kPreparing) {
    take_plan(message.as<Planned>());
  } else if (message.is<Start>() && state_ == State::kReady) {
    state_ = State::kRunning;
    host_.started(static_cast<uint64_t>(message.as<Start>().first_step));
  } else if (message.is<Note>()) {
    host_.noted(message.as<Note>());
  } else if (message.is<HaltQuery>()) {
    tell(HaltOffer{host_.offer_halt()});
  } else if (message.is<Halt>()) {
    host_.halt(message.as<Halt>().step);
  } else if (message.is<Conclude>()) {
    host_.concluded();
  } else if (message.is<Failed>()) {
    fail(message.as<Failed>().loss);
  } else if (message.is<Save>() && state_ == State::kFailing) {
    host_.save(message.as<Save>().step);
  } else if (message.is<Dismissed>()) {
    end();
    host_.dismissed();
  }
  // Anything else is late: it was sent before the coordinator knew what this node knows now.
}

void Member::prepared(const std::vector<Fact>& facts) {
  prepared_ = true;
  tell(Prepared{facts});
}
void Member::note(const Note& note) { tell(note); }
void Member::note_after_bulk(const Note& note) { tell(note, bulk_priority(0)); }
void Member::digest(const Digest& digest) { tell(digest); }
void Member::progress(const Progress& progress) { tell(progress); }
void Member::stopped(int64_t step) { tell(Stopped{step}); }
void Member::saved(int64_t step) { tell(Saved{step}, bulk_priority(0)); }
void Member::cannot_save(const std::string& why) { tell(CannotSave{why}, bulk_priority(0)); }

// ---- peers

/// Learns who is who. Some who have learned it before may have called; of them only members stay.
void Member::become(int64_t view, const std::vector<RosterEntry>& roster) {
  self_.view = static_cast<uint32_t>(view);
  transport_.present_as(self_);
  for (const RosterEntry& entry : roster)
    roster_[{entry.role, static_cast<uint16_t>(entry.rank)}] = entry.address;
  std::erase_if(connection_of_, [this](const auto& early) {
    const auto& [node, connection] = early;
    if (roster_.contains(node)) return false;
    node_of_.erase(connection);
    drop(connection);
    return true;
  });
}

/// Meets two workers, who may be one; these connections stay.
void Member::measure(const Measure& order) {
  become(order.view, order.roster);
  peers_until_ = transport_.now() + liveness_.timeout();
  const NodeId to{Role::kWorker, static_cast<uint16_t>(order.to)};
  const NodeId from{Role::kWorker, static_cast<uint16_t>(order.from)};
  if (!roster_.contains(to) || !roster_.contains(from) || to.rank == rank_ || from.rank == rank_)
    return coordinator_lost("it asked for a measurement with nodes that it did not name");
  probe_.emplace(LinkProbe::Options{.view = view(), .to = to, .from = from}, *this,
                 [this](double mbps) { tell(Measured{mbps}); });
  for (const NodeId peer : std::set{to, from})
    if (peer.rank < rank_ && !connection_of_.contains(peer)) connect_to(peer);
  say_met_when_complete();
}

void Member::say_met_when_complete() {
  if (!probe_ || met_ || !connection_of_.contains(probe_->options().to) ||
      !connection_of_.contains(probe_->options().from))
    return;
  met_ = true;
  tell(Met{});
}

void Member::take_plan(const Planned& planned) {
  if (!prepared_) return coordinator_lost("it published a plan before this node was prepared");
  state_ = State::kConnecting;
  become(planned.view, planned.roster);
  peers_until_ = transport_.now() + liveness_.timeout();
  host_.planned(planned);
}

void Member::ready(const std::vector<int64_t>& digest, bool meets_workers) {
  if (state_ != State::kConnecting) return;
  digest_ = digest;
  meets_workers_ = meets_workers;
  peers_until_ = transport_.now() + liveness_.timeout();
  connect_to_peers();
  say_ready_when_complete();
}

/// Whether this node and `peer` talk to each other.
bool Member::expects(NodeId peer) const {
  if (peer == NodeId{options_.role, rank_} || peer.role == Role::kCoordinator) return false;
  if (options_.role == Role::kServer) return peer.role == Role::kWorker;
  return peer.role == Role::kServer || meets_workers_;
}

/// Workers call servers, and of two workers the later one calls.
void Member::connect_to_peers() {
  if (options_.role == Role::kServer) return;
  for (const auto& [node, address] : roster_)
    if (expects(node) && !connection_of_.contains(node) &&
        (node.role == Role::kServer || node.rank < rank_))
      connect_to(node);
}

void Member::connect_to(NodeId peer) {
  reconnect_at_.erase(peer);
  connecting_[transport_.connect(roster_.at(peer), self_, peer)] = peer;
}

void Member::say_ready_when_complete() {
  if (state_ != State::kConnecting || !digest_) return;
  for (const auto& [node, address] : roster_)
    if (expects(node) && !connection_of_.contains(node)) return;
  state_ = State::kReady;
  tell(Ready{*digest_});
}

void Member::send(NodeId to, const FrameHeader& header, Payload payload, Priority priority) {
  const auto found = connection_of_.find(to);
  if (found != connection_of_.end())
    transport_.send(found->second, header, std::move(payload), priority);
}

void Member::send_to_coordinator(const FrameHeader& header, Payload payload) {
  if (coordinator_there_)
    transport_.send(coordinator_, header, std::move(payload), bulk_priority(0));
}

NodeId Member::node_of(const PeerIdentity& peer) {
  return {peer.role, static_cast<uint16_t>(peer.rank)};
}

std::optional<NodeId> Member::node_of(ConnectionId connection) const {
  if (connection == coordinator_) return NodeId{};
  const auto found = node_of_.find(connection);
  return found == node_of_.end() ? std::nullopt : std::optional(found->second);
}

std::span<std::byte> Member::place(ConnectionId from, const FrameHeader& header) {
  const std::optional<NodeId> node = node_of(from);
  if (!node || state_ >= State::kSuspecting) return {};
  const bool is_probe = header.kind == FrameKind::kProbe && probe_;
  if (node->role != Role::kCoordinator && state_ < State::kConnecting && !is_probe) return {};
  const Placement placement = is_probe ? probe_->place(*node, header) : host_.place(*node, header);
  if (!placement.fault.empty()) suspect(*node, text("it ", placement.fault));
  if (!placement.accepted) return {};
  return options_.carries_payload || is_probe ? placement.memory : nowhere(header.length);
}

void Member::received(ConnectionId from, const FrameHeader& header,
                      std::span<const std::byte> body) {
  heard(from);
  if (header.kind == FrameKind::kHeartbeat || state_ == State::kEnded) return;
  const std::optional<NodeId> node = node_of(from);
  if (!node) return;
  if (header.kind != FrameKind::kControl) {
    if (header.kind == FrameKind::kProbe)
      probe_->received(header, transport_.now());
    else if (state_ >= State::kSuspecting)
      host_.forgotten(*node);
    else
      host_.received(*node, header);
    return;
  }
  try {
    if (node->role == Role::kCoordinator) control(ControlMessage(body));
  } catch (const ConfigError& error) {
    coordinator_lost(text("it sent a message that cannot be read: ", error.what()));
  }
}

// ---- loss

void Member::closed(ConnectionId connection, const std::string& why) {
  liveness_.remove(connection);
  if (state_ == State::kEnded) return;
  if (connection == coordinator_) {
    coordinator_there_ = false;
    if (state_ <= State::kJoining) return seek_again(why);
    return coordinator_lost(why);
  }
  if (const auto peer = connecting_.find(connection); peer != connecting_.end()) {
    const NodeId node = peer->second;
    connecting_.erase(peer);
    if (transport_.now() >= peers_until_) return suspect(node, "it cannot be reached: " + why);
    reconnect_at_[node] = transport_.now() + kPeerPause;
    return transport_.wake_at(reconnect_at_[node]);
  }
  const std::optional<NodeId> node = node_of(connection);
  if (!node) return;
  node_of_.erase(connection);
  connection_of_.erase(*node);
  if (!roster_.contains(*node)) return;  // it was not known yet whether it is a member
  host_.forgotten(*node);
  suspect(*node, why);
}

void Member::wake() {
  if (state_ == State::kEnded) return;
  const Time now = transport_.now();
  for (ConnectionId connection : liveness_.wake(transport_)) {
    const std::optional<NodeId> node = node_of(connection);
    liveness_.remove(connection);
    const std::string why = text("no sign of life for ", seconds_text(liveness_.timeout()));
    if (connection == coordinator_) {
      coordinator_there_ = false;
      transport_.close(connection);
      if (state_ == State::kJoining)
        seek_again(why);
      else
        coordinator_lost(why);
    } else if (node && roster_.contains(*node)) {
      suspect(*node, why);
    } else {
      if (node) connection_of_.erase(*node);
      node_of_.erase(connection);
      transport_.close(connection);
    }
  }
  if (seek_at_.count() > 0 && now >= seek_at_) seek();
  for (const auto& [node, when] : std::map(reconnect_at_))
    if (now >= when && state_ < State::kSuspecting) connect_to(node);
  if (state_ == State::kSuspecting && now >= verdict_until_) fail(accusation_);
}

Loss Member::loss_of(NodeId node, const std::string& why) const {
  const std::string awaited = host_.awaiting(node);
  return {.kind = Loss::Kind::kPeer,
          .who = node,
          .address = address_of(node),
          .why = why,
          .step = host_.step_under_way(),
          .awaited =
              awaited.empty() ? "" : name_of(NodeId{options_.role, rank_}) + " awaited " + awaited};
}

std::string Member::address_of(NodeId node) const {
  if (node.role == Role::kCoordinator) return options_.coordinator;
  const auto found = roster_.find(node);
  return found == roster_.end() ? "" : found->second;
}

void Member::suspect(NodeId node, const std::string& why) {
  if (state_ >= State::kFinished) return;
  accuse(loss_of(node, why));
}

void Member::report_error(const std::string& why) {
  if (state_ >= State::kSuspecting) return;
  accuse({.kind = Loss::Kind::kError,
          .who = {options_.role, rank_},
          .address = options_.address,
          .why = why,
          .step = host_.step_under_way(),
          .awaited = ""});
}

void Member::leave(const std::string& why) {
  if (state_ >= State::kFinished) return;
  const Loss loss{.kind = Loss::Kind::kLeft,
                  .who = {options_.role, rank_},
                  .address = options_.address,
                  .why = why,
                  .step = host_.step_under_way(),
                  .awaited = ""};
  // As long as there is a job its state may be what is saved.
  if (state_ >= State::kConnecting) return accuse(loss);
  if (state_ == State::kPreparing) tell(Lost{loss});
  end();
  host_.dismissed();
}

/// The coordinator hears all accusations and decides on one: a node that is only cut off, or that
/// ends because of another's loss, is not to be named.
void Member::accuse(const Loss& loss) {
  accusation_ = loss;
  if (!coordinator_there_) return fail(loss);
  state_ = State::kSuspecting;
  tell(Lost{loss});
  verdict_until_ = transport_.now() + liveness_.timeout();
  transport_.wake_at(verdict_until_);
}

void Member::coordinator_lost(const std::string& why) {
  coordinator_there_ = false;
  if (state_ == State::kEnded) return;
  if (state_ == State::kFailing) {
    end();
    host_.dismissed();
    return;
  }
  fail(loss_of(NodeId{}, why));
}

void Member::fail(const Loss& loss) {
  if (state_ >= State::kFailing) return;
  state_ = State::kFailing;
  // A checkpoint that is still on its way: another one may be asked for, perhaps of a survivor.
  if (coordinator_there_) transport_.drop_bulk(coordinator_);
  host_.failed(loss, !coordinator_there_);
}

void Member::finished(int64_t step) {
  // A server may suspect a worker that ended when all of them were done.
  if (state_ != State::kRunning && state_ != State::kSuspecting) return;
  state_ = State::kFinished;
  // Behind the last checkpoint: whoever is done may be let go.
  tell(Finished{step}, bulk_priority(0));
}

void Member::end() {
  state_ = State::kEnded;
  if (coordinator_there_) transport_.close(coordinator_);
  coordinator_there_ = false;
  for (const auto& [connection, node] : node_of_) transport_.close(connection);
  for (const auto& [connection, node] : connecting_) transport_.close(connection);
}

}  // namespace poseidon::comm
