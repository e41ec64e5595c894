#include "trainer/member/last_step_saver.h"

#include "comm/membership/checkpoint_queue.h"
#include "core/error.h"
#include "core/failure.h"
#include "trainer/report/run_directory_lock.h"
#include "trainer/state/survivor_checkpoint.h"

namespace poseidon::trainer {

namespace {

constexpr auto kGracePeriodWithSurvivors = std::chrono::seconds(10);

}  // namespace

LastStepSaver::LastStepSaver(const MemberOptions& options, Log& log)
    : options_(options), log_(log), run_lock_(RunDirectoryLock::text_in(options.run_directory)) {}

InMemoryCheckpoint* LastStepSaver::kept(const std::string& run) const {
  return options_.checkpoint_store == nullptr ? nullptr : options_.checkpoint_store->of(run);
}

void LastStepSaver::drop(const std::string& run) {
  if (options_.checkpoint_store != nullptr) options_.checkpoint_store->drop(run);
}

void LastStepSaver::keep(const WorkerTraining& training, const PreparedJob& job, int64_t step,
                         const comm::NodeFailure& node_failure, std::vector<std::string> reports) {
  const double seconds = job.job.config.cluster.rejoin_s;
  if (options_.checkpoint_store == nullptr || seconds <= 0 || step <= training.first_step()) return;
  if (!comm::survivors_are_valid(node_failure)) return;
  try {
    InMemoryCheckpoint kept =
        copy_step(job.message.run, training.state_after(step), training.tensors());
    kept.rank = job.rank;
    kept.reports = std::move(reports);
    options_.checkpoint_store->keep(
        std::move(kept), InMemoryCheckpointStore::Clock::now() +
                             std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)));
    log_.info(text("keeps an in-memory checkpoint of step ", step, " of \"", job.job.config.name,
                   "\" for ", seconds, " s; to resume its run: poseidon-train --resume"));
  } catch (...) {
    log_.warning(text("cannot keep an in-memory checkpoint of step ", step, ": ",
                      message_of(std::current_exception())));
  }
}

void LastStepSaver::write(const WorkerTraining& training, int64_t step) {
  if (options_.run_directory.empty() || step == 0) return;
  // A step before this worker's first step would need sums in flight that no longer exist.
  if (step < training.first_step()) return;
  const auto may_write = [this] {
    if (RunDirectoryLock::text_in(options_.run_directory) != run_lock_)
      throw RunError(options_.run_directory.string() +
                     ": the run directory is gone, or another run writes to it");
  };
  const auto folder = options_.run_directory / "checkpoints";
  try {
    may_write();
    const bool wrote =
        write_survivor_checkpoint(folder, training.state_after(step), training.tensors(),
                                  kGracePeriodWithSurvivors, may_write);
    log_.info(
        text(wrote ? "wrote" : "found", " the checkpoint of step ", step, " in ", folder.string()));
  } catch (...) {
    log_.warning(message_of(std::current_exception()));
  }
}

}  // namespace poseidon::trainer
