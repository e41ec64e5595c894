#include "comm/membership/ending.h"

#include "comm/wire/mutation.h"
#include "comm/wire/texts.h"

namespace poseidon::comm {

namespace {

/// Whether the node in question can still do what the survivors do after a failure.
bool takes_part_to_the_end(NodeFailure::Kind kind) {
  return kind == NodeFailure::Kind::kError || kind == NodeFailure::Kind::kLeft;
}

}  // namespace

// ---- after the last step

void Ending::finished(MemberRecord& member, int64_t step) {
  member.finished = true;
  member.step = step;
  conclude_when_finished();
}

/// Servers are asked only when all workers are done, because another step may follow before.
void Ending::conclude_when_finished() {
  if (job_.state() == CoordinatorState::kRunning &&
      job_.members.all(Role::kWorker, &MemberRecord::finished)) {
    job_.enter(CoordinatorState::kConcluding);
    job_.members.tell_all(Role::kServer, Conclude{});
  }
  if (job_.state() == CoordinatorState::kConcluding &&
      job_.members.all(Role::kServer, &MemberRecord::finished))
    dismiss({.finished = true, .loss = {}, .saved_step = {}});
}

// ---- after a node failure

void Ending::fail(const NodeFailure& loss) {
  if (job_.state() >= CoordinatorState::kFailing) return;
  loss_ = loss;
  job_.enter(CoordinatorState::kFailing);
  job_.host.observer.failed(loss_);
  job_.members.tell_all(Failed{loss_});
  if (const MemberRecord* lost = job_.members.find(loss_.who);
      lost != nullptr && !takes_part_to_the_end(loss_.kind)) {
    job_.disconnect(lost->connection);
    job_.members.remove(loss_.who);
  }
  if (!job_.has_begun()) return dismiss_without_checkpoint();
  save_when_all_stopped();
}

void Ending::stopped(MemberRecord& member, int64_t step) {
  member.stopped = step;
  save_when_all_stopped();
}

/// All survivors have reported. The survivor with the most complete steps has the valid state; of
/// equals, the lowest rank. None has it if the job was to return to a checkpoint.
void Ending::save_when_all_stopped() {
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
  job_.control.tell(best->connection, Save{*best->stopped});
}

void Ending::saved(const MemberRecord& member, int64_t step) {
  if (job_.state() != CoordinatorState::kSaving || !job_.is_asked(member)) return;
  job_.host.checkpoints.saved(member.node.rank, step);
  dismiss({.finished = false, .loss = loss_, .saved_step = step});
}

void Ending::cannot_save(MemberRecord& member, const std::string& why) {
  if (job_.state() != CoordinatorState::kSaving || !job_.is_asked(member)) return;
  job_.host.checkpoints.not_saved(member.node.rank, why);
  member.cannot_save = true;
  ask_next_best();
}

void Ending::ask_next_best() {
  job_.enter(CoordinatorState::kFailing);
  save_when_all_stopped();
}

/// The job reports only one failure, and none if its results are complete. A node that fails now is
/// only not awaited any longer.
void Ending::lose(NodeId node) {
  const MemberRecord* lost = job_.members.find(node);
  const bool was_asked =
      job_.state() == CoordinatorState::kSaving && lost != nullptr && job_.is_asked(*lost);
  job_.members.remove(node);
  job_.host.observer.given_up(node);
  if (was_asked && mutated(Mutation::kNoNextBest)) return dismiss_without_checkpoint();
  if (was_asked) return ask_next_best();
  conclude_when_finished();
  save_when_all_stopped();
}

void Ending::give_up(NodeId node, const std::string& why) {
  job_.host.observer.slow(node, text("no longer waiting for ", name_of(node), ": it ", why));
  job_.disconnect(job_.members.find(node)->connection);
  lose(node);
}

void Ending::dismiss_without_checkpoint() {
  dismiss({.finished = false, .loss = loss_, .saved_step = {}});
}

void Ending::dismiss(const Outcome& outcome) {
  job_.enter(CoordinatorState::kEnded);
  job_.members.tell_all(Dismissed{});
  for (const auto& [node, member] : job_.members) job_.transport.close(member.connection);
  job_.members.clear();
  job_.refuse_newcomers();
  admission_.close();
  job_.host.observer.ended(outcome);
}

}  // namespace poseidon::comm
