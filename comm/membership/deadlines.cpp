#include "comm/membership/deadlines.h"

#include <algorithm>
#include <tuple>

#include "comm/wire/mutation.h"
#include "comm/wire/texts.h"

namespace poseidon::comm {

using namespace std::chrono_literals;

namespace {

constexpr Time kMinBeforeWarning = 60s;
/// Limit on the time until survivors have stopped, or send the next tensor of a checkpoint. It is
/// short, because survivors have no other task. CoordinatorOptions::timeout replaces it if shorter.
/// The time of four steps replaces both if longer.
constexpr Time kMaxForSurvivors = 5s;
/// Limit on the time until all workers have reported their link rate, in addition to the timeout.
/// The measurement takes seconds, except on extremely slow links.
constexpr Time kMeasurement = 60s;
/// Limit on the time without a tensor from a worker that sends its in-memory checkpoint. It is
/// short, because the worker has no other task. Three timeouts replace it if they are longer. A
/// shorter stall timeout replaces both.
constexpr Time kMaxForMemoryCheckpoint = 60s;
/// Limit on the time until the joiners of a view are ready. Three timeouts replace it if they are
/// longer. The transfer time of the values is added kTransferTimeFactor times.
constexpr Time kMinForJoiners = 60s;
constexpr int kTransferTimeFactor = 4;

}  // namespace

/// How long the current state may last, counted from quiet_since().
Time Deadlines::limit() const {
  if (mutated(Mutation::kNoDeadline)) return Time::max();
  switch (job_.state()) {
    case CoordinatorState::kGathering:
      return job_.options.gather_timeout.count() > 0 ? job_.options.gather_timeout : Time::max();
    case CoordinatorState::kFetching:
      return std::min(job_.options.stall_timeout,
                      std::max(kMaxForMemoryCheckpoint, 3 * job_.options.timeout));
    case CoordinatorState::kPreparing:
    case CoordinatorState::kConnecting:
    case CoordinatorState::kRunning: return job_.options.stall_timeout;
    case CoordinatorState::kMeasuring: return job_.options.timeout + kMeasurement;
    case CoordinatorState::kConcluding: return job_.options.timeout;
    case CoordinatorState::kSuspecting: return failure_detector_.grace();
    case CoordinatorState::kReconfiguring:
      // A step cannot be interrupted. Before the first step its duration is unknown.
      if (job_.step_timer.median_step() == Time{0}) return job_.options.stall_timeout;
      [[fallthrough]];
    case CoordinatorState::kFailing:
    case CoordinatorState::kSaving:
      return std::max(std::min(job_.options.timeout, kMaxForSurvivors),
                      4 * job_.step_timer.median_step());
    case CoordinatorState::kEnded: return Time::max();
  }
  return Time::max();
}

/// Whether the current state waits for this member.
bool Deadlines::is_awaited(const MemberRecord& member) const {
  const bool worker = member.node.role == Role::kWorker;
  switch (job_.state()) {
    case CoordinatorState::kPreparing: return !member.prepared;
    case CoordinatorState::kFetching: return job_.is_asked(member);
    case CoordinatorState::kMeasuring: return worker && member.link.mbps <= 0;
    case CoordinatorState::kConnecting: return !member.ready;
    case CoordinatorState::kRunning: return worker && !member.finished;
    case CoordinatorState::kConcluding: return !worker && !member.finished;
    case CoordinatorState::kReconfiguring: return !member.left;
    case CoordinatorState::kFailing: return !member.stopped;
    case CoordinatorState::kSaving: return job_.is_asked(member);
    case CoordinatorState::kGathering:
    case CoordinatorState::kSuspecting:
    case CoordinatorState::kEnded: return false;
  }
  return false;
}

/// The awaited member that delays all others; nullptr: no member is awaited. The order: workers
/// before servers, which need the workers' data; computing members before members that wait for
/// sums; fewest steps; longest silence.
const MemberRecord* Deadlines::slowest() const {
  const auto rank = [](const MemberRecord& member) {
    return std::tuple(member.node.role == Role::kServer, member.doing.waits, member.step,
                      member.progress_at);
  };
  const MemberRecord* slowest = nullptr;
  for (const auto& [node, member] : job_.members)
    if (is_awaited(member) && (slowest == nullptr || rank(member) < rank(*slowest)))
      slowest = &member;
  return slowest;
}

/// The time from which limit() counts. Reports of progress do not extend the states in which
/// members only stop or measure. In kSaving, each tensor of the requested checkpoint extends the
/// wait.
Time Deadlines::quiet_since(const MemberRecord* member) const {
  if (member == nullptr || job_.state() == CoordinatorState::kFailing ||
      job_.state() == CoordinatorState::kReconfiguring ||
      job_.state() == CoordinatorState::kMeasuring)
    return job_.entered_at();
  return std::max(job_.entered_at(), member->progress_at);
}

/// In some states one call handles all overdue members, so the other members wait only once.
void Deadlines::watch() {
  if (give_up_joiners()) return;
  const CoordinatorState state = job_.state();
  const bool gives_up_all = state == CoordinatorState::kReconfiguring ||
                            state == CoordinatorState::kFailing ||
                            state == CoordinatorState::kConcluding;
  while (watch_slowest() && gives_up_all && job_.state() == state) {
  }
}

/// Calls expire() if the time limit of the slowest member has passed, and returns true. Otherwise
/// warns about the member if it has made no progress for long.
bool Deadlines::watch_slowest() {
  const MemberRecord* member = slowest();
  // All members have left, and the coordinator reads the checkpoint to which they return.
  if (member == nullptr && job_.state() == CoordinatorState::kReconfiguring) return false;
  const Time quiet = job_.now() - quiet_since(member);
  if (quiet >= limit()) {
    expire(member);
    return true;
  }
  const bool warns =
      job_.state() == CoordinatorState::kPreparing || job_.state() == CoordinatorState::kFetching ||
      job_.state() == CoordinatorState::kConnecting || job_.state() == CoordinatorState::kRunning;
  if (warns && member != nullptr) warn(*member, quiet);
  return false;
}

/// Warns if the member has made no progress for long, and again after each further period of the
/// same length.
void Deadlines::warn(const MemberRecord& member, Time quiet) {
  const Time after = std::max(kMinBeforeWarning, 10 * job_.step_timer.median_step());
  const Time warned = job_.now() - std::max(warned_at_, job_.entered_at());
  if (quiet < after || warned < after) return;
  warned_at_ = job_.now();
  job_.host.observer.slow(member.node, text("no progress from ", name_of(member.node), " for ",
                                            seconds_text(quiet), "; ", last_activity(member)));
}

/// Example: "last activity: testing, 120 of 500 batches; steps completed: 4".
std::string Deadlines::last_activity(const MemberRecord& member) const {
  const Progress& doing = member.doing;
  std::string out = "last activity: " + (doing.doing.empty() ? "none reported" : doing.doing);
  if (doing.of > 0) out += text(", ", doing.done, " of ", doing.of);
  if (!doing.unit.empty()) out += " " + doing.unit;
  if (job_.has_begun()) out += text("; steps completed: ", member.step);
  return out;
}

/// Handles a state that has lasted too long.
void Deadlines::expire(const MemberRecord* member) {
  const std::string after = seconds_text(limit());
  switch (job_.state()) {
    case CoordinatorState::kGathering: return give_up_gathering();
    case CoordinatorState::kSuspecting: return failure_detector_.expire();
    case CoordinatorState::kMeasuring:
      return failure_detector_.declare_failed(job_.failure_of(
          *member, NodeFailure::Kind::kStall, "it reported no link speed within " + after));
    case CoordinatorState::kFetching: return preparation_.give_up_fetch(*member, limit());
    case CoordinatorState::kPreparing:
    case CoordinatorState::kConnecting:
    case CoordinatorState::kRunning:
      return failure_detector_.declare_failed(
          job_.failure_of(*member, NodeFailure::Kind::kStall,
                          text("no progress for ", after, "; ", last_activity(*member))));
    case CoordinatorState::kReconfiguring:
      return failure_detector_.declare_failed(job_.failure_of(
          *member, NodeFailure::Kind::kStall, "it did not stop computing within " + after));
    case CoordinatorState::kConcluding:
      return job_shutdown_.give_up(member->node, "did not report its traffic within " + after);
    case CoordinatorState::kFailing:
      return job_shutdown_.give_up(member->node, "did not stop computing within " + after);
    case CoordinatorState::kSaving:
      return job_shutdown_.give_up(member->node, "sent no tensor of its checkpoint for " + after);
    case CoordinatorState::kEnded: return;
  }
}

/// Declares the joiners of a view as failed if they are not ready in time, because the members can
/// continue without them. Reports of progress from the joiners do not extend the limit. Returns
/// whether a joiner was late.
bool Deadlines::give_up_joiners() {
  if (job_.state() != CoordinatorState::kConnecting || !job_.has_begun()) return false;
  const Time most = std::max(kMinForJoiners, 3 * job_.options.timeout) +
                    kTransferTimeFactor * job_.host.planner.state_transfer_time();
  if (job_.now() - job_.entered_at() < most) return false;
  std::vector<NodeFailure> late;
  for (const auto& [node, member] : job_.members)
    if (!member.has_values && !member.ready)
      late.push_back(job_.failure_of(member, NodeFailure::Kind::kStall,
                                     text("the joiner was not ready within ", seconds_text(most))));
  if (!late.empty()) failure_detector_.declare_failed(std::move(late));
  return !late.empty();
}

/// The first missing node counts as failed. The reason also states how many nodes are missing.
void Deadlines::give_up_gathering() {
  const std::optional<NodeId> node = admission_.first_missing();
  if (!node) return;
  failure_detector_.declare_failed(
      job_.failure_of(*node, NodeFailure::Kind::kPeer,
                      text("it did not join within ", seconds_text(job_.options.gather_timeout),
                           "; missing: ", admission_.missing())));
}

}  // namespace poseidon::comm
