#include "trainer/coordinator/coordinator_session.h"

#include "comm/wire/address.h"
#include "core/error.h"

namespace poseidon::trainer {

namespace {
/// Limit on the logged refusals that are stored to avoid repeated messages.
constexpr size_t kMostSaid = 256;
}  // namespace

void CoordinatorSession::refused(const std::string& address, const std::string& why) {
  if (is_new_refusal(address, why))
    setting_.warn(text("a node at ", address, " is not admitted: ", why));
  if (!setting_.join_options.members_are_daemons)
    side_.coordinator->report_error(text("the node at ", address, ": ", why));
}

/// Whether this refusal is not in `said_` yet; adds it. Compares hosts without ports: a refused
/// daemon retries every second, possibly from another port.
bool CoordinatorSession::is_new_refusal(const std::string& address, const std::string& why) {
  if (said_.size() >= kMostSaid) said_.clear();
  return said_.insert(comm::host_of(address) + ": " + why).second;
}

/// Logs the join of a daemon. Discards the information about an earlier worker with this rank.
void CoordinatorSession::joined(comm::NodeId node, const std::string& address) {
  if (node.role == comm::Role::kWorker) {
    side_.kept.forget(node.rank);
    side_.plan.forget(node.rank);
    side_.reception.forget(node.rank);
  }
  if (!setting_.join_options.members_are_daemons) return;
  const std::string missing = side_.coordinator->missing();
  setting_.inform(text(comm::name_of(node), " joined from ", address,
                       missing.empty() ? "" : text("; waiting for ", missing)));
}

void CoordinatorSession::started() {
  setting_.inbox.post(
      [this, when = ViewRecords::Clock::now(), members = side_.coordinator->members().roster()] {
        setting_.records.started(when, members);
      });
}

/// Handles notes for planner and checkpoints in this thread, and posts the others to the main
/// thread. The plan depends on notes that a worker sends before it is prepared, so they must not be
/// delayed.
void CoordinatorSession::noted(comm::NodeId node, const comm::Note& note) {
  const bool worker = node.role == comm::Role::kWorker;
  if (note.about == TensorsNote::kAbout && worker) side_.kept.has_built(node.rank);
  if (note.about == ClockNote::kAbout) {
    setting_.inbox.post(
        [this, node, clock = read_note<ClockNote>(note), now = TraceRecorder::now()] {
          setting_.records.trace().answered(node, clock, now);
        });
  } else if (note.about == DeviceNote::kAbout && worker) {
    side_.plan.add_device(node.rank, read_note<DeviceNote>(note));
  } else if (note.about == CheckpointOfferNote::kAbout && worker) {
    planner_.take_offer(node, note);
  } else if (note.about == SavedReportNote::kAbout && worker) {
    planner_.take_report(node, note);
  } else if (note.about == TimesNote::kAbout && worker && side_.plan.measures()) {
    side_.plan.add_times(node.rank, read_note<TimesNote>(note));
  } else if (note.about == TensorsNote::kAbout && worker && side_.state_transfer.is_due()) {
    checkpoints_.transfer_state_to(node.rank);
  } else if (note.about == SentCheckpoint::kAbout && worker) {
    checkpoints_.take(node.rank, note);
  } else {
    setting_.inbox.post([this, node, note] { setting_.records.take_note(node, note); });
  }
}

void CoordinatorSession::reconfiguring(const comm::NodeFailure& node_failure) {
  setting_.inbox.post([this, node_failure, when = ViewRecords::Clock::now()] {
    setting_.watcher.reconfiguring(node_failure, when);
  });
}

void CoordinatorSession::failed(const comm::NodeFailure& node_failure) {
  checkpoints_.failed(node_failure);
  setting_.inbox.post([this, node_failure] { setting_.watcher.node_failed(node_failure); });
}

/// The main thread kills the node's process if it is a child process. The child may be suspended
/// (SIGSTOP), and then would never end by itself.
void CoordinatorSession::given_up(comm::NodeId node) {
  setting_.inbox.post([this, node] { setting_.watcher.given_up(node); });
}

void CoordinatorSession::ended(const comm::Outcome& outcome) {
  setting_.inbox.post([this, outcome] { setting_.watcher.ended(outcome); });
}

}  // namespace poseidon::trainer
