#include "trainer/member/worker_task.h"

#include <future>

#include "core/error.h"
#include "core/failure.h"
#include "trainer/measure/timing.h"
#include "trainer/member/worker_session.h"
#include "trainer/messages/device_note.h"
#include "trainer/messages/facts.h"
#include "trainer/step/job_failed.h"

namespace poseidon::trainer {

namespace {

/// Repetitions in each layer's timing; few, because the other members wait for this worker.
constexpr int kJoinRepeats = 5;
/// Time limit of wait_for_posts(). The I/O thread processes posts immediately, unless it has
/// failed.
constexpr auto kMostForPosts = std::chrono::seconds(5);

/// Waits until the I/O thread has processed all earlier posts, but at most kMostForPosts.
void wait_for_posts(WorkerSession& session) {
  const auto done = std::make_shared<std::promise<void>>();
  session.post([done](WorkerSession&) { done->set_value(); });
  done->get_future().wait_for(kMostForPosts);
}

}  // namespace

WorkerTask::WorkerTask(const MemberOptions& options, WorkerSession& session, Log& log)
    : options_(options),
      session_(session),
      log_(log),
      exit_watchdog_(options.abandon),
      progress_([&session, &options](const comm::Progress& progress) {
        options.heartbeat->does(progress);
        session.post(
            [progress](WorkerSession& self) { self.member().coordinator().progress(progress); });
      }),
      sender_(session, progress_),
      last_step_(options, log) {
  job_.has_parent = !options.run_directory.empty();
}

template <class Action>
void WorkerTask::guarded(Action action) {
  try {
    action();
  } catch (const JobFailed&) {
    // end_after() or dismissed() follows.
  } catch (...) {
    session_.post([why = message_of(std::current_exception())](WorkerSession& session) {
      session.member().report_error(why);
    });
  }
}

void WorkerTask::over(MemberEnd end) {
  if (!end_) end_ = end;
  start_exit_timeout("the threads of the job did not end");
}

void WorkerTask::prepare(uint16_t rank, const Json& job) {
  guarded([&] {
    job_.rank = rank;
    job_.message = read_job_message(job);
    job_.job = open_job_message(job_.message, options_);
    session_.post([setting = job_.job.config.comm.congestion_control](WorkerSession& session) {
      session.transport().control_congestion(setting);
    });
    log_.info(text("joined the job \"", job_.job.config.name, "\" as worker ", rank));
    options_.heartbeat->joined(text("worker ", rank, " of the job \"", job_.job.config.name, "\""));
    open_data_sets();
    offer_checkpoint();
    build_ahead();
    report_prepared();
  });
}

void WorkerTask::open_data_sets() {
  const Job& job = job_.job;
  progress_.report_activity("opening the training set");
  job_.train_data = open_data(job, DataPart::kTrain, log_);
  progress_.report_activity("opening the test set");
  job_.test_data = open_test_data(job, job_.train_data, log_);
  progress_.report_activity("timing layers");
  // Times the layers with the default layouts and algorithms: the job's choices arrive later, with
  // the plan.
  if (job_.message.times_layers)
    session_.note(TimesNote{
        read_layer_times(time_layers(job, {}, kJoinRepeats, log_), "this worker's times")});
  session_.note(device_note(job.device()));
}

/// Offers this worker's in-memory checkpoint to the coordinator of a resumed run: the earlier
/// coordinator may have failed before it saved this step.
void WorkerTask::offer_checkpoint() {
  if (!job_.message.goes_on) return;
  const InMemoryCheckpoint* kept = last_step_.kept(job_.message.run);
  if (kept == nullptr) return;
  session_.note(CheckpointOfferNote{.run = kept->run,
                                    .rank = kept->rank,
                                    .state = kept->state,
                                    .list = tensor_list(kept->tensors->tensors())},
                kept->state.step);
  for (const std::string& report : kept->reports)
    session_.note(SavedReportNote{report}, kept->state.step);
}

/// A joiner of a running job allocates its net before the members wait for it. Its rank is not
/// known yet, so it builds the net of worker 0.
void WorkerTask::build_ahead() {
  if (job_.message.plan.is_null()) return;
  progress_.report_activity("building the net");
  const uint16_t rank = std::exchange(job_.rank, uint16_t{0});
  make_training(job_.message.plan);
  job_.rank = rank;
}

void WorkerTask::make_training(const Json& plan) {
  training_ = std::make_unique<WorkerTraining>(job_, read_published_plan(plan),
                                               WorkerTraining::Reports{.session = session_,
                                                                       .sent = reports_,
                                                                       .progress = progress_,
                                                                       .sender = sender_,
                                                                       .grace = stop_timeout_,
                                                                       .log = log_});
}

void WorkerTask::report_prepared() {
  progress_.waits("other nodes to prepare");
  session_.post([facts = facts_of(job_.job, job_.train_data, job_.test_data)](
                    WorkerSession& session) { session.member().prepared(facts); });
}

void WorkerTask::send_step(int64_t step) {
  guarded([&] {
    if (training_ != nullptr) {
      training_->send_checkpoint(step);
      sender_.forget_sent();
    } else {
      send_memory_checkpoint(step);
    }
    progress_.waits("other nodes to prepare");
  });
}

/// The in-memory checkpoint stays stored until train(), because the job may fail during the
/// transfer.
void WorkerTask::send_memory_checkpoint(int64_t step) {
  const InMemoryCheckpoint* kept = last_step_.kept(job_.message.run);
  if (kept == nullptr || kept->state.step != step)
    throw ConfigError(text("it requests the in-memory checkpoint of step ", step,
                           ", which this worker does not have"));
  sender_.send(step, kept->tensors->tensors(), kept->state.in_flight);
}

void WorkerTask::build(const comm::Planned& planned, uint16_t rank) {
  guarded([&] {
    job_.rank = rank;
    if (training_ != nullptr) {
      progress_.report_activity("reverting to the last common step");
      return training_->go_on(read_published_plan(planned.plan));
    }
    progress_.report_activity("building the net");
    make_training(planned.plan);
    training_->announce();
  });
}

void WorkerTask::take_value(int64_t index) {
  guarded([&] { training_->take_value(index); });
}

void WorkerTask::begin_with_values() {
  guarded([&] { training_->begin_with_values(); });
}

void WorkerTask::train() {
  began_ = true;
  last_step_.drop(job_.message.run);
  guarded([&] { training_->train(); });
}

void WorkerTask::leave_view(const comm::NodeFailure& node_failure) {
  log_next_view(node_failure, log_);
  sender_.reopen();
  progress_.waits("other nodes to leave the view");
  // A worker that could not build its net has already reported the error.
  const int64_t step = training_ == nullptr ? 0 : training_->last_complete_step();
  const int64_t least = training_ == nullptr ? 0 : training_->earliest_revertible_step();
  session_.post([step, least](WorkerSession& session) { session.left_view(step, least); });
}

void WorkerTask::end_after(const comm::NodeFailure& node_failure, bool alone) {
  node_failure_ = node_failure;
  exit_watchdog_.disarm();
  sender_.reopen();
  log_.warning(end_text(node_failure, {comm::Role::kWorker, job_.rank}));
  stopped_step_ = training_ != nullptr ? training_->stop_computing() : 0;
  if (!alone) {
    if (began_) training_->report_traffic_and_trace();
    return session_.post([step = stopped_step_](WorkerSession& session) { session.stopped(step); });
  }
  exit_watchdog_.arm(LastStepSaver::kGracePeriod,
                     "the checkpoint of the last step was not written within 120 s");
  // Before the first step the net may have no values, and there is nothing new to save.
  if (began_) last_step_.write(*training_, stopped_step_);
  keep_last_step();
  session_.post([](WorkerSession& session) { session.member().leave(); });
  over(end_of(node_failure));
}

void WorkerTask::keep_last_step() {
  if (!began_ || !node_failure_) return;
  exit_watchdog_.arm(LastStepSaver::kGracePeriod,
                     "the last complete step was not copied within 120 s");
  wait_for_posts(session_);
  // The reports of steps after stopped_step_ are also stored. Another worker may have completed
  // such a step, and the run may resume after it. Its metrics need the reports of all workers.
  last_step_.keep(*training_, job_, stopped_step_, *node_failure_, reports_.messages(INT64_MAX));
}

void WorkerTask::save(int64_t step) {
  try {
    training_->send_checkpoint(step);
    session_.post([step](WorkerSession& session) { session.member().coordinator().saved(step); });
  } catch (const JobFailed&) {
    // The coordinator has dismissed this worker.
  } catch (...) {
    session_.post([why = message_of(std::current_exception())](WorkerSession& session) {
      session.member().coordinator().cannot_save(why);
    });
  }
}

void WorkerTask::dismissed() {
  if (began_ && !node_failure_) log_.info("the job is done");
  keep_last_step();
  over(node_failure_ ? end_of(*node_failure_) : MemberEnd::kDone);
}

}  // namespace poseidon::trainer
