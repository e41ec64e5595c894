// What the coordinator does when nothing happens: how long each of its states may last, who is
// waited for meanwhile, and what ends it. comm/membership/states.h has the table.

#include <algorithm>
#include <tuple>

#include "comm/membership/coordinator.h"
#include "comm/wire/mutation.h"
#include "comm/wire/words.h"

namespace poseidon::comm {

using namespace std::chrono_literals;

namespace {

constexpr Time kLeastPatience = 60s;  ///< before a warning
/// With survivors: they have nothing to do but to come to an end.
constexpr Time kMostForSurvivors = 5s;
/// Of the link, until all have told; it takes seconds, but for links that take hardly anything.
constexpr Time kMeasurement = 60s;

}  // namespace

/// How long the state may last without a sign of whom it waits for.
Time Coordinator::patience() const {
  if (mutated(Mutation::kNoDeadline)) return Time::max();
  switch (state_) {
    case State::kGathering:
      return options_.gather_timeout.count() > 0 ? options_.gather_timeout : Time::max();
    case State::kPreparing:
    case State::kFetching:
    case State::kConnecting:
    case State::kRunning: return options_.stall_timeout;
    case State::kMeasuring: return options_.timeout + kMeasurement;
    case State::kConcluding: return options_.timeout;
    case State::kSuspecting: return suspicion_;
    case State::kFailing:
    case State::kSaving:
      return std::max(std::min(options_.timeout, kMostForSurvivors), 4 * median_step());
    case State::kEnded: return Time::max();
  }
  return Time::max();
}

/// Whether the state ends when this member has done its part.
bool Coordinator::is_awaited(const MemberState& member) const {
  const bool worker = member.node.role == Role::kWorker;
  switch (state_) {
    case State::kPreparing: return !member.prepared;
    case State::kFetching: return worker && member.node.rank == keeper_;
    case State::kMeasuring: return worker && member.link_mbps <= 0;
    case State::kConnecting: return !member.ready;
    case State::kRunning: return worker && !member.finished;
    case State::kConcluding: return !worker && !member.finished;
    case State::kFailing: return !member.stopped;
    case State::kSaving: return worker && member.node.rank == saving_;
    case State::kGathering:
    case State::kSuspecting:
    case State::kEnded: return false;
  }
  return false;
}

/// The one that all others wait for in the end: a worker before the servers, which need its
/// numbers; one that computes before those that wait for sums; the one with the least steps; the
/// quietest.
const Coordinator::MemberState* Coordinator::slowest() const {
  const auto rank = [](const MemberState& member) {
    return std::tuple(member.node.role == Role::kServer, member.doing.waits, member.step,
                      member.sign_at);
  };
  const MemberState* slowest = nullptr;
  for (const auto& [node, member] : members_)
    if (is_awaited(member) && (slowest == nullptr || rank(member) < rank(*slowest)))
      slowest = &member;
  return slowest;
}

/// Since when the state has been waiting. Survivors have no reason to be long about anything: of
/// them, only tensors of the checkpoint that is asked for are a sign.
Time Coordinator::quiet_since(const MemberState* member) const {
  if (member == nullptr || state_ == State::kFailing || state_ == State::kMeasuring)
    return entered_at_;
  return std::max(entered_at_, member->sign_at);
}

void Coordinator::enter(State state) {
  state_ = state;
  entered_at_ = warned_at_ = transport_.now();
}

void Coordinator::watch() {
  const MemberState* member = slowest();
  const Time now = transport_.now(), quiet = now - quiet_since(member);
  if (quiet >= patience()) return expire(member);
  const Time warning = std::max(kLeastPatience, 10 * median_step());
  const bool warns = state_ == State::kPreparing || state_ == State::kFetching ||
                     state_ == State::kConnecting || state_ == State::kRunning;
  if (!warns || member == nullptr || quiet < warning || now - warned_at_ < warning) return;
  warned_at_ = now;
  host_.slow(member->node, text("no sign of progress from ", name_of(member->node), " for ",
                                seconds_text(quiet), "; ", what_it_did(*member)));
}

/// "it was testing, 120 of 500 batches, and has done 4 steps".
std::string Coordinator::what_it_did(const MemberState& member) const {
  const Progress& doing = member.doing;
  std::string out = "it was " + (doing.doing.empty() ? "silent about what it does" : doing.doing);
  if (doing.of > 0) out += text(", ", doing.done, " of ", doing.of);
  if (!doing.unit.empty()) out += " " + doing.unit;
  if (state_ >= State::kRunning) out += text(", and has done ", member.step, " steps");
  return out;
}

/// The state has lasted too long.
void Coordinator::expire(const MemberState* member) {
  const std::string after = seconds_text(patience());
  switch (state_) {
    case State::kGathering: return give_up_gathering();
    case State::kSuspecting: return accuse(Loss(loss_));
    case State::kMeasuring:
      return accuse(
          loss_of(*member, Loss::Kind::kStall, "its link was not measured within " + after));
    case State::kPreparing:
    case State::kFetching:
    case State::kConnecting:
    case State::kRunning:
      return accuse(loss_of(*member, Loss::Kind::kStall,
                            text("no sign of progress for ", after, "; ", what_it_did(*member))));
    case State::kConcluding:
      return give_up(member->node, "did not tell its traffic within " + after);
    case State::kFailing: return give_up(member->node, "did not cease to compute within " + after);
    case State::kSaving:
      return give_up(member->node, "sent nothing of its checkpoint for " + after);
    case State::kEnded: return;
  }
}

/// One loss is told, and none where all that the job is for is there: who is lost then must only
/// not be waited for.
void Coordinator::lose_survivor(NodeId node) {
  members_.erase(node);
  host_.given_up(node);
  if (state_ == State::kSaving && node.role == Role::kWorker && saving_ == node.rank) {
    saving_.reset();
    enter(State::kFailing);
    if (mutated(Mutation::kNoNextBest))
      return dismiss({.finished = false, .loss = loss_, .saved_step = {}});
  }
  if (state_ == State::kConcluding) finish_when_all_have();
  if (state_ == State::kFailing) save_when_all_stopped();
}

/// The job ends without this member.
void Coordinator::give_up(NodeId node, const std::string& why) {
  host_.slow(node, text(name_of(node), " is not waited for any longer: it ", why));
  const ConnectionId connection = members_.at(node).connection;
  liveness_.remove(connection);
  transport_.close(connection);
  lose_survivor(node);
}

Time Coordinator::median_step() const {
  if (step_times_.empty()) return Time{0};
  std::vector<Time> times = step_times_;
  const auto middle = times.begin() + static_cast<int64_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace poseidon::comm
