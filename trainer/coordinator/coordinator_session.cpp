#include "trainer/coordinator/coordinator_session.h"

#include "core/error.h"
#include "trainer/state/resume.h"
#include "trainer/state/tensor_check.h"

namespace poseidon::trainer {

void CoordinatorSession::say(const std::string& message) {
  setting_.inbox.post([this, message] { setting_.records.console().info(message); });
}

void CoordinatorSession::warn(const std::string& message) {
  setting_.inbox.post([this, message] { setting_.records.console().warning(message); });
}

void CoordinatorSession::refused(const std::string& address, const std::string& why) {
  warn(text("a node at ", address, " is not let in: ", why));
  if (!setting_.gathering.by_themselves)
    side_.coordinator->report_error(text("the node at ", address, ": ", why));
}

/// What is known of a worker that had the rank before does not hold for this one.
void CoordinatorSession::joined(comm::NodeId node, const std::string& address) {
  if (node.role == comm::Role::kWorker) {
    side_.kept.forget(node.rank);
    side_.plan.forget(node.rank);
    side_.reception.forget(node.rank);
  }
  if (!setting_.gathering.by_themselves) return;
  const std::string missing = side_.coordinator->missing();
  say(text(comm::name_of(node), " joined from ", address,
           missing.empty() ? "" : text("; waiting for ", missing)));
}

void CoordinatorSession::measured_link(const comm::LinkRate& rate, bool one_host) {
  side_.plan.set_link(rate);
  say(one_host ? text("all workers are on one host: the plan takes loopback's ", rate.mbps,
                      " Mb/s, measured now, for the network; \"comm.link_mbps\" would say another")
               : text("the network between the workers takes ", rate.mbps,
                      " Mb/s each way, measured now; the plan is made for that"));
}

std::optional<uint16_t> CoordinatorSession::fetch_kept_step() {
  const KeptNote* kept = side_.kept.choose(first_step());
  if (kept == nullptr) return std::nullopt;
  side_.reception.expect(kept->list);
  side_.coordinator->note(*side_.kept.keeper(), write_note(FetchNote{}, kept->state.step));
  return side_.kept.keeper();
}

/// What is not this job's is of no use here, and no fault of the worker's.
void CoordinatorSession::take_offer(comm::NodeId worker, const comm::Note& note) {
  auto kept = read_note<KeptNote>(note);
  if (!setting_.goes_on || kept.run != setting_.run || kept.state.step != note.step)
    throw ConfigError("a kept step that was not asked for");
  const Job& job = setting_.job;
  try {
    check_tensors(kept.list, *job.network, job.config.optimizer,
                  std::max(job.config.comm.staleness, kept.state.in_flight));
    refuse_other_batch(kept.state, job, setting_.options.resume);
    side_.kept.add(worker.rank, std::move(kept));
  } catch (const ConfigError& error) {
    warn(text(comm::name_of(worker), " keeps step ", note.step,
              " of this run, which is not of this job: ", error.what()));
  }
}

/// A plan that cannot be made ends the job, which the main thread says.
std::optional<Json> CoordinatorSession::plan(const std::vector<comm::Fact>& facts) {
  RunPlan& plan = side_.plan;
  try {
    plan.decide(facts);
  } catch (const ConfigError&) {
    setting_.inbox.post([failure = std::current_exception()] { std::rethrow_exception(failure); });
    return std::nullopt;
  }
  setting_.inbox.post([this, decided = DecidedPlan{.plan = plan.plan(),
                                                   .published = plan.published(),
                                                   .facts = facts,
                                                   .no_factors = plan.no_factors()}] {
    setting_.records.begin(decided);
  });
  return write_published_plan(plan.published());
}

void CoordinatorSession::started() {
  setting_.inbox.post([this] { setting_.records.started(); });
}

/// What the plan depends on is taken at once, before the worker says that it is prepared.
void CoordinatorSession::noted(comm::NodeId node, const comm::Note& note) {
  const bool worker = node.role == comm::Role::kWorker;
  if (note.about == ClockNote::kAbout) {
    setting_.inbox.post(
        [this, node, clock = read_note<ClockNote>(note), now = TraceRecorder::now()] {
          setting_.records.trace().answered(node, clock, now);
        });
  } else if (note.about == DeviceNote::kAbout && worker) {
    side_.plan.add_device(node.rank, read_note<DeviceNote>(note));
  } else if (note.about == KeptNote::kAbout && worker) {
    take_offer(node, note);
  } else if (note.about == TimesNote::kAbout && worker && side_.plan.measures()) {
    side_.plan.add_times(node.rank, read_note<TimesNote>(note));
  } else if (note.about == SentCheckpoint::kAbout && worker) {
    take_checkpoint(node.rank, note);
  } else {
    setting_.inbox.post([this, node, note] { setting_.records.take_note(node, note); });
  }
}

/// Throws ConfigError, by which the sender is lost, for one that is not whole.
void CoordinatorSession::take_checkpoint(uint16_t worker, const comm::Note& note) {
  const auto sent = read_note<SentCheckpoint>(note);
  auto tensors = side_.reception.take(worker, note.step, sent);
  if (const KeptNote* kept = side_.kept.asked_of(worker, note.step))
    return setting_.inbox.post(
        [this, worker, state = kept->state, tensors = std::move(tensors), sent] {
          setting_.records.take_kept_step(worker, state, *tensors, sent);
        });
  if (!side_.plan.is_decided()) throw ConfigError("a checkpoint that was not asked for");
  setting_.inbox.post([this, worker, step = note.step, tensors = std::move(tensors), sent] {
    setting_.records.take_checkpoint(worker, step, tensors, sent);
  });
}

void CoordinatorSession::agreed(int64_t step, const std::vector<int64_t>& digest) {
  setting_.inbox.post([this, step, digest] { setting_.records.agreed(step, digest); });
}

void CoordinatorSession::failed(const comm::Loss& loss) {
  drifted_ = !comm::survivors_count(loss);
  setting_.inbox.post([this, loss] { setting_.watcher.lost(loss); });
}

bool CoordinatorSession::wants_checkpoint(int64_t step) {
  return !drifted_ && setting_.records.wants_checkpoint(step);
}

void CoordinatorSession::not_saved(uint16_t worker, const std::string& why) {
  warn(text("worker ", worker, " has no checkpoint to give: ", why));
}

/// It may be stopped, and would never end by itself.
void CoordinatorSession::given_up(comm::NodeId node) {
  setting_.inbox.post([this, node] { setting_.watcher.given_up(node); });
}

void CoordinatorSession::ended(const comm::Outcome& outcome) {
  setting_.inbox.post([this, outcome] { setting_.watcher.ended(outcome); });
}

}  // namespace poseidon::trainer
