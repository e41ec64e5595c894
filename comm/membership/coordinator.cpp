#include "comm/membership/coordinator.h"

#include <algorithm>

#include "comm/plan/plan.h"
#include "comm/wire/words.h"
#include "core/error.h"

namespace poseidon::comm {

using namespace std::chrono_literals;

namespace {

constexpr size_t kStepsRemembered = 32;
/// Of one worker, of steps that others have not come to: all that can be in flight and some more.
constexpr size_t kMostDigests = 2 * kMostStaleness;

/// Whether the node in question can still do what the others do after a loss.
bool takes_part_to_the_end(Loss::Kind kind) {
  return kind == Loss::Kind::kError || kind == Loss::Kind::kLeft;
}

}  // namespace

Coordinator::Coordinator(const Options& options, Transport& transport, CoordinatorHost& host)
    : options_(options), transport_(transport), host_(host), liveness_(options.timeout) {}

void Coordinator::send_words(ConnectionId connection, const Payload& words) {
  transport_.send(connection, {.kind = FrameKind::kControl, .view = options_.view}, words, kUrgent);
}

Coordinator::MemberState* Coordinator::member_of(ConnectionId connection) {
  for (auto& [node, member] : members_)
    if (member.connection == connection) return &member;
  return nullptr;
}

bool Coordinator::all(Role role, bool MemberState::*flag) const {
  return std::all_of(members_.begin(), members_.end(), [&](const auto& entry) {
    return entry.first.role != role || entry.second.*flag;
  });
}

void Coordinator::control(MemberState& member, const ControlMessage& message) {
  if (message.is<Progress>()) {
    member.doing = message.as<Progress>();
    if (!member.doing.waits) sign(member);
  } else if (message.is<Prepared>()) {
    member.facts = message.as<Prepared>().facts;
    member.prepared = true;
    publish_when_prepared();
  } else if (message.is<Met>()) {
    member.met = true;
    probe_when_met();
  } else if (message.is<Measured>()) {
    member.link_mbps = message.as<Measured>().mbps;
    publish_when_measured();
  } else if (message.is<Ready>()) {
    member.digest = message.as<Ready>().digest;
    member.ready = true;
    start_when_ready();
  } else if (message.is<Note>()) {
    const auto note = message.as<Note>();
    if (member.node.role == Role::kWorker) count_steps(member, note.step);
    host_.noted(member.node, note);
  } else if (message.is<Digest>()) {
    sign(member);
    compare(member, message.as<Digest>());
  } else if (message.is<HaltOffer>()) {
    settle_halt(member, message.as<HaltOffer>().step);
  } else if (message.is<Finished>()) {
    member.finished = true;
    member.step = message.as<Finished>().step;
    finish_when_all_have();
  } else if (message.is<Lost>()) {
    const Loss loss = message.as<Lost>().loss;
    if (loss.kind == Loss::Kind::kLeft && state_ <= State::kFetching)
      member_lost(member, loss.why, Time{0});
    else
      hear(loss);
  } else if (message.is<Stopped>()) {
    member.stopped = message.as<Stopped>().step;
    save_when_all_stopped();
  } else if (message.is<Saved>() && state_ == State::kSaving && saving_ == member.node.rank) {
    host_.saved(member.node.rank, message.as<Saved>().step);
    dismiss({.finished = false, .loss = loss_, .saved_step = message.as<Saved>().step});
  } else if (message.is<CannotSave>() && state_ == State::kSaving && saving_ == member.node.rank) {
    host_.not_saved(member.node.rank, message.as<CannotSave>().why);
    member.cannot_save = true;
    saving_.reset();
    enter(State::kFailing);
    save_when_all_stopped();
  }
}

void Coordinator::count_steps(MemberState& member, int64_t step) {
  if (step <= member.step) return;
  member.step = step;
  member.doing.waits = false;
  sign(member);
  if (state_ < State::kRunning || step <= last_step_) return;
  step_times_.push_back(transport_.now() - last_step_at_);
  if (step_times_.size() > kStepsRemembered) step_times_.erase(step_times_.begin());
  last_step_at_ = transport_.now();
  last_step_ = step;
}

// ---- running

void Coordinator::compare(MemberState& member, const Digest& digest) {
  // Where a checkpoint and a test are due after the same step, its digest may come twice.
  if (state_ != State::kRunning || digest.step <= agreed_step_) return;
  refuse_too_many(member, digest);
  Digests& digests = digests_[digest.step];
  digests[member.node.rank] = digest.values;
  if (digests.size() < options_.workers || !replicas_are_equal(digest.step, digests)) return;
  digests_.erase(digests_.begin(), digests_.upper_bound(digest.step));
  agreed_step_ = digest.step;
  host_.agreed(digest.step, digest.values);
}

/// What a worker tells ahead of the others is kept, so it must have an end. Its first digest, which
/// all workers share, is of as many tensors as any later one without sums in flight.
void Coordinator::refuse_too_many(const MemberState& member, const Digest& digest) const {
  const size_t most = member.digest.size() * (kMostStaleness + 1);
  if (digest.values.size() > most)
    throw ConfigError(
        text("a digest of ", digest.values.size(), " tensors, expected at most ", most));
  if (digests_.size() >= kMostDigests && !digests_.contains(digest.step))
    throw ConfigError(text("digests of ", kMostDigests, " steps that not all workers have done"));
}

/// What most workers have is right. Where there is no most, nobody knows who is wrong.
bool Coordinator::replicas_are_equal(int64_t step, const Digests& digests) {
  const std::optional<Drift> drift =
      find_drift(digests, step, [this](size_t index) { return host_.tensor_name(index); });
  if (!drift) return true;
  Loss loss{.kind = Loss::Kind::kDrift,
            .who = {},
            .address = "",
            .why = drift->why,
            .step = step,
            .awaited = ""};
  if (drift->who) {
    loss.who = {Role::kWorker, *drift->who};
    loss.address = members_.at(loss.who).address;
  }
  accuse(loss);
  return false;
}

void Coordinator::halt() {
  if (state_ < State::kRunning) return report_error("stopped before the first step");
  // Whatever comes after that is the job's end already.
  if (halting_ || state_ != State::kRunning) return;
  halting_ = true;
  for (const auto& [node, member] : members_)
    if (node.role == Role::kWorker) tell(member.connection, HaltQuery{});
}

/// Each worker has promised not to go beyond its offer; the largest one can be reached by all.
void Coordinator::settle_halt(MemberState& member, int64_t step) {
  if (!halting_) return;
  halt_offers_[member.node.rank] = step;
  if (halt_offers_.size() < options_.workers) return;
  int64_t furthest = 0;
  for (const auto& [rank, offer] : halt_offers_) furthest = std::max(furthest, offer);
  for (const auto& [node, each] : members_)
    if (node.role == Role::kWorker) tell(each.connection, Halt{furthest});
}

void Coordinator::note(const Note& note) {
  for (const auto& [node, member] : members_)
    if (node.role == Role::kWorker) tell(member.connection, note);
}

void Coordinator::note_members(const Note& note) { tell_all(note); }

void Coordinator::note(uint16_t worker, const Note& note) {
  const auto found = members_.find({Role::kWorker, worker});
  if (found != members_.end()) tell(found->second.connection, note);
}

void Coordinator::send(uint16_t worker, const FrameHeader& header, Payload payload) {
  const auto found = members_.find({Role::kWorker, worker});
  if (found != members_.end())
    transport_.send(found->second.connection, header, std::move(payload), bulk_priority(0));
}

/// Servers are asked when the workers are done: before, there may be one more step.
void Coordinator::finish_when_all_have() {
  if (state_ == State::kRunning && all(Role::kWorker, &MemberState::finished)) {
    enter(State::kConcluding);
    for (const auto& [node, member] : members_)
      if (node.role == Role::kServer) tell(member.connection, Conclude{});
  }
  if (state_ == State::kConcluding && all(Role::kServer, &MemberState::finished))
    dismiss({.finished = true, .loss = {}, .saved_step = {}});
}

std::span<std::byte> Coordinator::place(ConnectionId from, const FrameHeader& header) {
  MemberState* member = member_of(from);
  if (member == nullptr || member->node.role != Role::kWorker) return {};
  if (header.view != options_.view) return {};
  const Placement placement = host_.place(member->node.rank, header);
  if (!placement.fault.empty()) {
    // Not from within a request of the transport's: the connection's own end tells the rest.
    transport_.close(from);
    member_lost(*member, text("it ", placement.fault), options_.timeout / 10);
  }
  return placement.accepted ? placement.memory : std::span<std::byte>();
}

void Coordinator::received(ConnectionId from, const FrameHeader& header,
                           std::span<const std::byte> body) {
  heard(from);
  if (header.kind == FrameKind::kHeartbeat || state_ == State::kEnded) return;
  MemberState* member = member_of(from);
  if (header.kind != FrameKind::kControl) {
    if (member == nullptr) return;
    sign(*member);
    return host_.received(member->node.rank, header);
  }
  try {
    const ControlMessage message(body);
    if (member != nullptr)
      control(*member, message);
    else if (message.is<Join>() && strangers_.contains(from))
      let_in(from, message.as<Join>());
  } catch (const ConfigError& error) {
    const std::string why = text("it sent a message that cannot be read: ", error.what());
    if (member != nullptr)
      member_lost(*member, why, options_.timeout / 10);
    else
      refuse(from, strangers_[from].address, why);
  }
}

// ---- loss

/// Counted from 1, the step that not all workers have done; 0 before the first.
int64_t Coordinator::step_under_way() const {
  if (state_ < State::kRunning) return 0;
  int64_t least = last_step_;
  for (const auto& [node, member] : members_)
    if (node.role == Role::kWorker) least = std::min(least, member.step);
  return least + 1;
}

Loss Coordinator::loss_of(const MemberState& member, Loss::Kind kind,
                          const std::string& why) const {
  return {.kind = kind,
          .who = member.node,
          .address = member.address,
          .why = why,
          .step = step_under_way(),
          .awaited = ""};
}

void Coordinator::closed(ConnectionId connection, const std::string& why) {
  liveness_.remove(connection);
  strangers_.erase(connection);
  if (MemberState* member = member_of(connection)) member_lost(*member, why, options_.timeout / 10);
}

void Coordinator::member_lost(MemberState& member, const std::string& why, Time patience) {
  liveness_.remove(member.connection);
  const Loss loss = loss_of(member, Loss::Kind::kPeer, why);
  const NodeId node = member.node;
  members_.erase(node);
  if (state_ <= State::kFetching && options_.replaces_members) {
    enter(State::kGathering);
    return host_.refused(loss.address, "it left before the job began: " + why);
  }
  if (state_ < State::kFailing && state_ != State::kConcluding) return suspect(loss, patience);
  lose_survivor(node);
}

void Coordinator::report_error(const std::string& why) {
  accuse({.kind = Loss::Kind::kError,
          .who = {},
          .address = "",
          .why = why,
          .step = step_under_way(),
          .awaited = ""});
}

/// A node is gone. Those who waited for it notice at about the same time: for a moment they are
/// listened to, so that the message can say what they waited for.
void Coordinator::suspect(const Loss& loss, Time patience) {
  if (state_ >= State::kSuspecting) return;
  if (state_ < State::kRunning) return accuse(loss);
  enter(State::kSuspecting);
  loss_ = loss;
  suspicion_ = patience;
  transport_.wake_at(transport_.now() + suspicion_);
}

void Coordinator::hear(const Loss& accusation) {
  if (state_ == State::kConcluding) return;
  const bool tells_more = accusation.kind != Loss::Kind::kPeer || !accusation.awaited.empty();
  if (state_ == State::kSuspecting) {
    if (accusation.who != loss_.who || !tells_more) return;
    if (accusation.kind != Loss::Kind::kPeer) return accuse(accusation);
    // What was seen first is the cause: who is given up for its silence is cut off then, and others
    // see just that.
    Loss loss = loss_;
    loss.step = accusation.step;
    loss.awaited = accusation.awaited;
    accuse(loss);
  } else if (tells_more) {
    accuse(accusation);
  } else {
    suspect(accusation, options_.timeout / 10);
  }
}

void Coordinator::accuse(const Loss& loss) {
  if (state_ >= State::kFailing) return;
  loss_ = loss;
  // The coordinator knows the step best; an accuser knows what it waited for.
  if (loss_.step == 0) loss_.step = step_under_way();
  const bool had_begun = state_ >= State::kRunning;
  enter(State::kFailing);
  host_.failed(loss_);
  tell_all(Failed{loss_});
  if (const auto found = members_.find(loss_.who);
      found != members_.end() && !takes_part_to_the_end(loss_.kind)) {
    transport_.close(found->second.connection);
    liveness_.remove(found->second.connection);
    members_.erase(found);
  }
  if (!had_begun) return dismiss({.finished = false, .loss = loss_, .saved_step = {}});
  save_when_all_stopped();
}

/// All have told what they know. The survivor with the most complete steps has the state that
/// counts, the lowest rank of equals.
void Coordinator::save_when_all_stopped() {
  if (state_ != State::kFailing) return;
  const MemberState* best = nullptr;
  for (const auto& [node, member] : members_) {
    if (!member.stopped) return;
    if (node.role != Role::kWorker || member.cannot_save) continue;
    if (best == nullptr || *member.stopped > *best->stopped) best = &member;
  }
  if (best == nullptr || !host_.wants_checkpoint(*best->stopped))
    return dismiss({.finished = false, .loss = loss_, .saved_step = {}});
  enter(State::kSaving);
  saving_ = best->node.rank;
  tell(best->connection, Save{*best->stopped});
}

void Coordinator::dismiss(const Outcome& outcome) {
  enter(State::kEnded);
  tell_all(Dismissed{});
  for (const auto& [node, member] : members_) transport_.close(member.connection);
  for (const auto& [connection, address] : strangers_) {
    tell(connection, Refused{"the job has ended"});
    transport_.close(connection);
  }
  members_.clear();
  strangers_.clear();
  host_.ended(outcome);
}

void Coordinator::wake() {
  if (state_ == State::kEnded) return;
  for (ConnectionId connection : liveness_.wake(transport_)) {
    strangers_.erase(connection);
    MemberState* member = member_of(connection);
    const std::string why = text("no sign of life for ", seconds_text(liveness_.timeout()));
    // If it wakes up again it shall hear why it was left alone.
    if (member != nullptr) tell(connection, Failed{loss_of(*member, Loss::Kind::kPeer, why)});
    transport_.close(connection);
    // Others have heard of it up to a beat later.
    if (member != nullptr) member_lost(*member, why, 2 * options_.timeout / 5);
    if (state_ == State::kEnded) return;
  }
  watch_strangers();
  watch();
}

}  // namespace poseidon::comm
