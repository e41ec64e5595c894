#include "trainer/coordinator/cluster_records.h"

#include "core/counted.h"
#include "core/error.h"
#include "core/overloaded.h"
#include "trainer/coordinator/coordinator_io.h"
#include "trainer/job/choices.h"
#include "trainer/messages/facts.h"
#include "trainer/plan/balance_advice.h"
#include "trainer/plan/sync_plan.h"
#include "trainer/plan/wire_advice.h"
#include "trainer/report/disk_space.h"
#include "trainer/state/resume.h"
#include "trainer/state/tensor_check.h"

namespace poseidon::trainer {

namespace {

/// Returns the lowest rank with a device of this kind, or nullopt. `kind` is device.type of the
/// job. The run uses the choices of this worker: layout and algorithm of each layer.
std::optional<uint16_t> chooser_of(const DeviceNotes& devices, const std::string& kind) {
  for (const auto& [rank, device] : devices)
    if (device.kind == kind) return rank;
  return std::nullopt;
}

void report_written(CoordinatorIo& to, uint16_t worker, int64_t step) {
  to.post([worker, step](CoordinatorSide& io) {
    io.coordinator->note(worker, write_note(WrittenNote{}, step));
  });
}

comm::SavedStep saved_step(const Checkpoint& checkpoint) {
  return {.step = checkpoint.state().step, .in_flight = checkpoint.state().in_flight};
}

}  // namespace

ClusterRecords::ClusterRecords(const Job& job, const RunOptions& options, RunDirectory& directory,
                               CoordinatorIo& io, Console& console,
                               std::shared_ptr<const Checkpoint> resumed)
    : job_(job),
      options_(options),
      directory_(directory),
      io_(io),
      console_(console),
      resumed_(std::move(resumed)),
      checkpoints_(
          directory, job.config.train.keep_checkpoints,
          [this](int64_t step) {
            return run_state(job_, decided_.published, *schedule_, step, choices_,
                             fact(decided_.facts, "the training set"));
          },
          [this](uint16_t worker, int64_t step) { report_written(io_, worker, step); }),
      trace_(io, options.trace) {
  if (resumed_ != nullptr) checkpoints_.begin_from(saved_step(*resumed_), resumed_->weights_file());
}

void ClusterRecords::begin(DecidedPlan decided, const std::vector<SavedReports>& kept) {
  decided_ = std::move(decided);
  if (!decided_.no_factors.empty())
    console_.warning(decided_.no_factors);
  else if (const std::string unlike = difference_of(decided_.devices); !unlike.empty())
    console_.warning(unlike +
                     "; the result depends on the assignment of logical shards to workers");
  if (!decided_.dealt.empty()) console_.info(decided_.dealt);
  const std::string advice = balance_advice(job_, decided_.plan, decided_.devices);
  if (!advice.empty()) console_.warning(advice);
  if (decided_.plan.link_mbps > 0)
    if (const std::string wire = wire_advice(plan_request(job_), decided_.plan); !wire.empty())
      console_.info(wire);
  const PublishedPlan& published = decided_.published;
  if (resumed_ != nullptr) {
    warn_of_other_data(resumed_->state(), fact(decided_.facts, "the training set"), console_);
    warn_of_other_devices(resumed_->state(), published, job_, console_);
  }
  first_step_ = published.first_step;
  sum_steps_ = std::max(decided_.plan.staleness, published.in_flight);
  views_.add(decided_.plan, first_step_, first_step_);
  const int64_t samples = training_samples(decided_.facts);
  schedule_.emplace(schedule_of(job_, published.steps, samples));
  const Metrics::Options metrics{.steps = published.steps,
                                 .steps_done = published.first_step,
                                 .last_step = published.last_step,
                                 .log_every = job_.config.train.log_every,
                                 .global_batch = decided_.plan.global_batch,
                                 .epoch_samples = samples,
                                 .scalars = ScalarKeys(job_.network->scalars()),
                                 .test_scalars = ScalarKeys(job_.network->in_test().scalars())};
  write_saved_reports(kept, job_, metrics, directory_, console_);
  report_.emplace(decided_.plan, directory_, metrics, console_);
}

void ClusterRecords::started(ViewRecords::Clock::time_point when,
                             const std::vector<comm::RosterEntry>& members) {
  started_ = true;
  values_.clear();
  views_.started(when, members);
  if (!views_.is_first()) report_->note_events(views_.events());
  console_.info(text(counted(decided_.plan.workers(), "worker"), " and ",
                     counted(decided_.plan.servers(), "server"),
                     views_.is_first() ? " begin" : " continue", " with step ",
                     decided_.published.first_step + 1, " of ", decided_.published.steps));
  trace_.ask_for_time();
}

/// revert_to() drops checkpoints that were not agreed on. Their workers send them again in the next
/// view.
void ClusterRecords::go_on(const NextView& next) {
  const int64_t first_step = next.published.first_step;
  const std::string moved = moved_shard(decided_.published.plan, next.published.plan, job_);
  if (!moved.empty()) console_.warning(moved);
  decided_.plan = next.plan;
  decided_.published = next.published;
  decided_.devices = next.devices;
  views_.add(decided_.plan, first_step, std::max(report_->last_step(), first_step));
  report_->begin_view(first_step);
  report_->note_events(views_.events());
  checkpoints_.revert_to(first_step);
  if (!next.published.restored) return;
  // The steps after the checkpoint are repeated. Their values may have been wrong, so the reports
  // of these steps are discarded.
  report_->forget_after(first_step);
  values_ = {};
  resumed_ = checkpoints_.release();
}

/// Announces the step only after the file was read, because the members cannot go back to a damaged
/// checkpoint.
void ClusterRecords::restore() {
  const Checkpoint* intact = checkpoints_.hold(job_, sum_steps_, console_);
  const comm::SavedStep saved = intact == nullptr ? comm::SavedStep{} : saved_step(*intact);
  io_.post([saved](CoordinatorSide& io) {
    io.restored = saved;
    io.coordinator->restored(saved.step);
  });
}

/// An invalid note is an error of its sender, and the coordinator then removes the sender. A file
/// error is an error of this process.
void ClusterRecords::take_note(comm::NodeId node, const comm::Note& note) {
  std::optional<TensorsNote> tensors;
  const Overloaded taken{
      [&](const TensorsNote& content) {
        take(node, content);
        tensors = content;
      },
      [&](const ClassesNote& content) { take(node, content); },
      [&](const StepNote& content) { take(node, note.step, content); },
      [&](const TestNote& content) { report_->take_test(node.rank, note.step, content); },
      [&](const TrafficNote& content) { report_->take_traffic(node, content); },
      [&](const TraceNote& content) { trace_.add(node, content); }};
  try {
    if (!report_) throw ConfigError("a note that was sent before the plan was made");
    if (node.role == comm::Role::kWorker)
      dispatch<TensorsNote, ClassesNote, StepNote, TestNote, TrafficNote, TraceNote>(note, taken);
    else
      dispatch<TrafficNote, TraceNote>(note, taken);
  } catch (const ConfigError& error) {
    return io_.post(
        [node, view = views_.number(), why = std::string(error.what())](CoordinatorSide& io) {
          io.coordinator->report_unreadable(node, view, why);
        });
  } catch (const ReplayDiffers& error) {
    // A repeated step may differ slightly if a shard moved to a worker with other arithmetic.
    if (difference_of(decided_.devices).empty()) throw;
    return console_.warning(error.what());
  }
  if (tensors && !values_.are_made()) make_first_values(tensors->list);
  if (const auto classes = values_.checked_classes(options_, console_))
    directory_.write(kClassesFile, {{"classes", *classes}});
  if (!tensors) return;
  values_.send(node.rank, views_.number(), decided_.published.first_step, io_);
}

/// The first note that arrives determines the tensors of all workers. plan.json has the choices and
/// implementations of the worker from chooser_of(). Without such a worker, plan.json has the
/// implementations of worker 0.
void ClusterRecords::take(comm::NodeId worker, const TensorsNote& note) {
  if (!values_.are_made())
    check_tensors(note.list, *job_.network, job_.config.optimizer, sum_steps_);
  const std::optional<uint16_t> chooser = chooser_of(decided_.devices, job_.config.device.type);
  if (worker.rank != chooser.value_or(0)) return;
  threads_ = note.threads;
  if (chooser) choices_ = read_choices(note.choices, {"its choices", ""}, *job_.network);
  Json plan = plan_json(decided_.plan, choices_, note.implementations, decided_.devices);
  if (!decided_.no_factors.empty()) plan["reason"] = decided_.no_factors;
  directory_.write("plan.json", plan);
}

void ClusterRecords::make_first_values(const Json& list) {
  io_.post([list](CoordinatorSide& io) { io.reception.expect(list); });
  values_.make(list, resumed_.get(), options_.weights, console_);
  const PublishedPlan& published = decided_.published;
  if (resumed_ != nullptr) {
    console_.info(text("resuming after step ", published.first_step, " of ", published.steps,
                       " from ", resumed_->weights_file().string()));
    if (published.first_step >= published.last_step) checkpoints_.end_with(*resumed_, list);
  }
  resumed_.reset();
  if (!started_)
    check_disk_space(directory_.path(), checkpoint_bytes(list, published.in_flight),
                     job_.config.train, published.last_step - published.first_step, console_);
}

/// The coordinator may not have the data, so worker 0 sends the class names. All workers have the
/// same data, so too many classes are an error of the job, not of the worker.
void ClusterRecords::take(comm::NodeId worker, const ClassesNote& note) {
  if (worker.rank != 0) throw ConfigError("class names, which only worker 0 may send");
  const auto most = static_cast<size_t>(job_.network->classes());
  if (most == 0) return;  // the network has no classes
  if (note.classes.size() > most)
    return io_.report_error(text(comm::name_of(worker), ": the training set has ",
                                 note.classes.size(), " classes, but network \"",
                                 job_.network->name(), "\" has only ", most));
  values_.take_classes(note.classes);
}

void ClusterRecords::take(comm::NodeId worker, int64_t step, const StepNote& note) {
  if (!started_) throw ConfigError("a step report before training began");
  if (!report_->take_step(worker.rank, step, note, decided_.published.last_step)) return;
  directory_.keep();
  trace_.ask_for_time();
  acknowledger_.recorded(step, views_.number(), decided_.plan.workers());
}

void ClusterRecords::take_checkpoint(uint16_t worker, int64_t step,
                                     const std::shared_ptr<TensorStore>& tensors,
                                     const SentCheckpoint& sent) {
  write_checkpoints([&] { checkpoints_.take(worker, step, tensors, sent); });
}

void ClusterRecords::write_memory_checkpoint(uint16_t worker, const RunState& state,
                                             TensorStore& tensors, const SentCheckpoint& sent) {
  checkpoints_.put(state, tensors, sent);
  console_.info(text("fetched the in-memory checkpoint of step ", state.step, " from worker ",
                     worker, " and wrote it to ", checkpoints_.last().string()));
  resumed_ = resumed_checkpoint(job_, checkpoints_.last(), console_);
  checkpoints_.begin_from(saved_step(*resumed_), resumed_->weights_file());
  warn_of_changes(resumed_->state(), job_, console_);
  report_written(io_, worker, state.step);
  io_.post([worker, resumed = resumed_](CoordinatorSide& io) {
    io.kept.fetched(worker);
    io.plan.begin_from(resumed.get(), true);
    io.coordinator->fetched();
  });
}

void ClusterRecords::agreed(int64_t step, const std::vector<int64_t>& digest) {
  write_checkpoints([&] { checkpoints_.agreed(step, digest); });
}

void ClusterRecords::node_failed(const comm::NodeFailure& node_failure) {
  node_has_failed_ = true;
  if (comm::survivors_are_valid(node_failure))
    write_checkpoints([this] { checkpoints_.trust_survivors(); });
}

/// Runs `action`, which may write checkpoints. If a write fails, the job fails and all members
/// receive the reason. If the job has already failed, only the console shows the reason.
void ClusterRecords::write_checkpoints(const std::function<void()>& action) {
  try {
    action();
  } catch (const RunError& error) {
    if (node_has_failed_) return console_.warning(error.what());
    io_.report_error(error.what());
  }
}

int64_t ClusterRecords::step_under_way() const {
  if (!started_) return 0;
  return std::max(report_->last_step(), decided_.published.first_step) + 1;
}

ClusterRecords::Results ClusterRecords::results(double wall_seconds, const std::string& failure) {
  const int64_t saved = checkpoints_.saved_step();
  const int64_t steps = failure.empty() ? saved : std::max(saved, report_->last_step());
  const int64_t of_view = std::max<int64_t>(steps - published().first_step, 0);
  Results results{.summary = {}, .traffic = report_->traffic(of_view)};
  results.summary = report_->summary(job_,
                                     {.first_step = first_step_,
                                      .steps = saved,
                                      .steps_of_job = published().steps,
                                      .wall_seconds = wall_seconds,
                                      .device = names_of(decided_.devices),
                                      .servers = decided_.plan.servers(),
                                      .threads = threads_,
                                      .weights_sha256 = checkpoints_.weights_digest(),
                                      .state_sha256 = checkpoints_.state_digest(),
                                      .checkpoint = checkpoints_.last()},
                                     results.traffic);
  views_.write_to(results.summary);
  report_->note_events(views_.events());
  report_->end(saved, failure);
  report_->add_sessions(results.summary);
  views_.write_workers(results.summary, steps);
  if (!failure.empty()) results.summary["failure"] = failure;
  return results;
}

void ClusterRecords::write(const Results& results) {
  if (const std::string warning = report_->rounding_warning(); !warning.empty())
    console_.warning(warning);
  directory_.write_or_warn("traffic.json", results.traffic, console_);
  directory_.write_or_warn("summary.json", results.summary, console_);
  trace_.write(directory_, console_);
}

}  // namespace poseidon::trainer
