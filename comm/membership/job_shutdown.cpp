#include "comm/membership/job_shutdown.h"

#include "comm/wire/mutation.h"
#include "comm/wire/texts.h"

namespace poseidon::comm {

namespace {

/// Whether the failed node itself still works, so that it can stop and send its checkpoint like a
/// survivor. True if it reported a local error, or a request to end.
bool takes_part_to_the_end(NodeFailure::Kind kind) {
  return kind == NodeFailure::Kind::kError || kind == NodeFailure::Kind::kLeft;
}

}  // namespace

// ---- after the last step

void JobShutdown::finished(MemberRecord& member, int64_t step) {
  member.finished = true;
  member.step = step;
  conclude_when_finished();
}

/// Servers are asked to conclude only when all workers are done, because until then another step
/// may follow.
void JobShutdown::conclude_when_finished() {
  if (job_.state() == CoordinatorState::kRunning &&
      job_.members.all(Role::kWorker, &MemberRecord::finished)) {
    job_.enter(CoordinatorState::kConcluding);
    job_.members.broadcast(Role::kServer, Conclude{});
  }
  if (job_.state() == CoordinatorState::kConcluding &&
      job_.members.all(Role::kServer, &MemberRecord::finished))
    dismiss({.finished = true, .failure = {}, .saved_step = {}});
}

// ---- after a node failure

void JobShutdown::fail(const NodeFailure& failure) {
  if (job_.state() >= CoordinatorState::kFailing) return;
  failure_ = failure;
  job_.enter(CoordinatorState::kFailing);
  job_.host.observer.failed(failure_);
  job_.members.broadcast(Failed{failure_});
  if (const MemberRecord* failed_member = job_.members.find(failure_.who);
      failed_member != nullptr && !takes_part_to_the_end(failure_.kind)) {
    job_.disconnect(failed_member->connection);
    job_.members.remove(failure_.who);
  }
  if (!job_.has_begun()) return dismiss_without_checkpoint();
  save_when_all_stopped();
}

void JobShutdown::stopped(MemberRecord& member, int64_t step) {
  member.stopped = step;
  save_when_all_stopped();
}

/// When all survivors have stopped, requests a checkpoint from the worker that has completed the
/// most steps; among equals, the lowest rank. Ends the job without a checkpoint if no worker can
/// send a useful one. This includes a job that was about to return to a checkpoint: then no
/// survivor has a valid state.
void JobShutdown::save_when_all_stopped() {
  if (job_.state() != CoordinatorState::kFailing) return;
  const MemberRecord* best = nullptr;
  for (const auto& [node, member] : job_.members) {
    if (!member.stopped) return;
    if (!member.is_worker() || !member.has_values || member.cannot_save) continue;
    if (best == nullptr || *member.stopped > *best->stopped) best = &member;
  }
  if (best == nullptr || job_.restores || !job_.host.checkpoints.wants_checkpoint(*best->stopped))
    return dismiss_without_checkpoint();
  job_.ask(CoordinatorState::kSaving, best->node.rank);
  job_.control.send_message(best->connection, Save{*best->stopped});
}

void JobShutdown::saved(const MemberRecord& member, int64_t step) {
  if (job_.state() != CoordinatorState::kSaving || !job_.is_asked(member)) return;
  job_.host.checkpoints.saved(member.node.rank, step);
  dismiss({.finished = false, .failure = failure_, .saved_step = step});
}

void JobShutdown::cannot_save(MemberRecord& member, const std::string& why) {
  if (job_.state() != CoordinatorState::kSaving || !job_.is_asked(member)) return;
  job_.host.checkpoints.not_saved(member.node.rank, why);
  member.cannot_save = true;
  ask_next_best();
}

void JobShutdown::ask_next_best() {
  job_.enter(CoordinatorState::kFailing);
  save_when_all_stopped();
}

// ---- in both cases

/// The job reports only its first failure, and none if its results are complete. For a node that
/// fails now, the coordinator only stops waiting.
void JobShutdown::node_failed(NodeId node) {
  const MemberRecord* failed_member = job_.members.find(node);
  const bool was_asked = job_.state() == CoordinatorState::kSaving && failed_member != nullptr &&
                         job_.is_asked(*failed_member);
  job_.members.remove(node);
  job_.host.observer.given_up(node);
  if (was_asked && mutated(Mutation::kNoNextBest)) return dismiss_without_checkpoint();
  if (was_asked) return ask_next_best();
  conclude_when_finished();
  save_when_all_stopped();
}

void JobShutdown::give_up(NodeId node, const std::string& why) {
  job_.host.observer.slow(node, text("no longer waiting for ", name_of(node), ": it ", why));
  job_.disconnect(job_.members.find(node)->connection);
  node_failed(node);
}

void JobShutdown::dismiss_without_checkpoint() {
  dismiss({.finished = false, .failure = failure_, .saved_step = {}});
}

void JobShutdown::dismiss(const Outcome& outcome) {
  job_.enter(CoordinatorState::kEnded);
  job_.members.broadcast(Dismissed{});
  for (const auto& [node, member] : job_.members) job_.transport.close(member.connection);
  job_.members.clear();
  job_.refuse_joiners();
  admission_.close();
  job_.host.observer.ended(outcome);
}

}  // namespace poseidon::comm
