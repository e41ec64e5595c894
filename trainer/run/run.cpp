#include "trainer/run/run.h"

#include <chrono>

#include "core/error.h"
#include "core/failure.h"
#include "trainer/job/job_numbers.h"
#include "trainer/job/plausibility.h"
#include "trainer/measure/memory_estimate.h"
#include "trainer/messages/device_note.h"
#include "trainer/plan/sync_plan.h"
#include "trainer/report/checkpoint_files.h"
#include "trainer/report/disk_space.h"
#include "trainer/report/run_classes.h"
#include "trainer/report/run_report.h"
#include "trainer/report/test_progress.h"
#include "trainer/report/trace_file.h"
#include "trainer/run/run_loop.h"
#include "trainer/state/resume.h"
#include "trainer/step/backends.h"
#include "trainer/step/cluster_exchange.h"

namespace poseidon::trainer {

namespace {

/// A run of a job by a single worker, from its directory to its summary.
class Run final : public RunSink {
 public:
  Run(const Job& job, const RunOptions& options, Console& console);
  Json go();

 private:
  using Clock = std::chrono::steady_clock;

  void build();
  std::unique_ptr<GradientExchange> make_exchange(size_t device, net::Net& net,
                                                  layers::Updater& updater);
  std::function<void(const std::string&)> set_failed();
  void open_directory();
  void restore();
  void take_weights();
  void report_from_here();
  void introduce();
  bool lacks_test() const;
  [[noreturn]] void fail(RunLoop& loop, const std::exception_ptr& failure);
  std::string save_last_step(RunLoop& loop);
  Json end(const std::string& failure, bool is_whole);
  std::string resume_command() const {
    return trainer::resume_command(directory_.path(), options_, steps_saved());
  }
  int64_t steps_saved() const { return files_.last_step().value_or(0); }

  bool begin(int64_t done) override { return done < published_.last_step && !halted(); }
  void trained(StepReport report) override;
  void checkpoint(int64_t step) override;
  bool testing(int64_t done, int64_t of) override {
    test_progress_.at(done, of);
    return !halted();
  }
  void tested(int64_t step, const TestSums& sums) override { report_->tested(step, sums.mean()); }
  bool halted() override { return options_.stop != nullptr && *options_.stop; }

  void write_own_trace() const;
  Json summary(const std::string& failure, bool is_whole);

  const Clock::time_point start_ = Clock::now();
  const Job& job_;
  const RunOptions& options_;
  Console& console_;
  std::unique_ptr<Checkpoint> resumed_;  ///< null for a new run, and after its tensors are restored
  const PreparedData train_data_, test_data_;
  RunDirectory directory_;
  CheckpointFiles files_;
  const comm::Plan plan_;
  const DeviceNotes devices_;
  PublishedPlan published_;
  TestProgress test_progress_{console_, "testing"};
  TraceRecorder trace_;
  std::unique_ptr<SingleWorkerExchange> alone_;  ///< null if not needed
  std::unique_ptr<WorkerComputation> computation_;
  std::optional<RunReport> report_;
};

/// Reads the inputs, and creates no files. Without --output and --resume it creates an empty run
/// directory.
Run::Run(const Job& job, const RunOptions& options, Console& console)
    : job_(job),
      options_(options),
      console_(console),
      resumed_(resumed_checkpoint(job, options.resume, console)),
      train_data_(open_data(job, DataPart::kTrain, console)),
      test_data_(open_test_data(job, train_data_, console)),
      directory_(open_run_directory(options.output, options.resume, job.config.name)),
      files_(directory_, job.config.train.keep_checkpoints),
      plan_(plan_of(job, resumed_.get(), options.replan)),
      devices_({{0, device_note(job.device())}}),
      published_(begun_plan(job, plan_, resumed_.get(), options)) {
  const std::vector<std::string>& classes = train_data_.dataset->classes();
  if (!options.resume.empty()) check_classes_of_run(options, classes, true, console);
  set_devices(published_, devices_);
  set_end(published_, job, train_data_.dataset->size(), options);
}

Json Run::go() {
  introduce();
  build();
  open_directory();
  RunLoop loop(*computation_, test_data_, *this, console_);
  try {
    const bool halted = loop.go(lacks_test());
    if (halted || steps_saved() < published_.steps)
      console_.info(stopped_text(steps_saved(), published_.steps, resume_command()));
  } catch (...) {
    fail(loop, std::current_exception());
  }
  return end("", true);
}

/// Whether the test after `first_step` steps is missing. The earlier session may have ended between
/// a checkpoint and the test of the same step.
bool Run::lacks_test() const {
  const int64_t every = job_.config.train.test_every, step = published_.first_step;
  return step > 0 && every > 0 && step % every == 0 && !published_.tested;
}

/// Saves the last complete step after an error, writes the summary, and throws RunError. If this
/// session has completed no step, there is nothing to save. The function then only throws, and
/// passes on an error in the user's settings.
void Run::fail(RunLoop& loop, const std::exception_ptr& failure) {
  console_.finish();
  std::string why = message_of(failure);
  if (report_->last_step() == 0) {
    if (exit_code_of(failure) == 2) std::rethrow_exception(failure);
    throw RunError(why + files_.last_text());
  }
  const std::string saved = save_last_step(loop);
  if (saved != why) why += saved.empty() ? "" : "; " + saved;
  end(why, saved.empty());
  why += files_.last_text();
  throw RunError(files_.last_step() ? text(why, "; to resume: ", resume_command()) : why);
}

/// Writes the last complete step as a checkpoint. Returns the reason of a failure, "" on success.
std::string Run::save_last_step(RunLoop& loop) {
  if (alone_ != nullptr) alone_->exchange().clear_failure();
  try {
    if (loop.save_last_step()) return "";
    return text(
        "step ", computation_->steps_done() + 1,
        " was incomplete but had changed some layers, so the previous step cannot be saved");
  } catch (...) {
    return message_of(std::current_exception());
  }
}

/// Logs the size of the job, and warns of doubtful settings.
void Run::introduce() {
  const KnownData data = known_data(train_data_, test_data_);
  console_.info(job_in_numbers(job_, data));
  RunFacts facts{.job = job_, .data = data, .has_weights = !options_.weights.empty()};
  if (resumed_ != nullptr) facts.resumed = resumed_at(resumed_->state());
  warn_of_doubtful_settings(facts, console_);
}

/// Creates the training objects. Just before, warns if they may need too much memory.
void Run::build() {
  const net::Net::Options net = net_options(job_, published_, plan_, 1);
  warn_of_memory(job_, estimate_memory(job_, plan_, net), 1, console_);
  const size_t devices = job_.device().indices.size();
  if (SingleWorkerExchange::is_needed(plan_, devices))
    alone_ = std::make_unique<SingleWorkerExchange>(
        plan_, devices,
        ExchangeStart{.first_step = static_cast<uint64_t>(published_.first_step),
                      .seed = static_cast<uint64_t>(job_.config.train.seed)});
  computation_ = std::make_unique<WorkerComputation>(
      WorkerPart{.job = job_,
                 .published = published_,
                 .plan = plan_,
                 .data = train_data_,
                 .trace = options_.trace ? &trace_ : nullptr},
      net,
      WorkerComputation::Makers{
          .backend = [this](size_t device) { return make_backend(job_, device, &console_); },
          .exchange =
              [this](size_t device, net::Net& made, layers::Updater& updater) {
                return make_exchange(device, made, updater);
              },
          .set_failed = set_failed()},
      console_);
  if (alone_ != nullptr) alone_->open();
}

std::unique_ptr<GradientExchange> Run::make_exchange(size_t device, net::Net& net,
                                                     layers::Updater& updater) {
  if (alone_ != nullptr) return alone_->exchange().make_end(device, net, updater);
  return std::make_unique<LocalExchange>(
      net, updater, plan_.logical_shards(),
      StalenessOptions{.staleness = plan_.staleness, .first_step = published_.first_step});
}

std::function<void(const std::string&)> Run::set_failed() {
  if (alone_ == nullptr) return nullptr;
  return [this](const std::string& why) { alone_->exchange().set_failed(why); };
}

void Run::open_directory() {
  directory_.make();
  console_.open_log(directory_.path() / kConsoleFile, session_header(options_.command));
  check_disk_space(directory_.path(),
                   checkpoint_bytes(computation_->tensors(), published_.in_flight),
                   job_.config.train, published_.last_step - published_.first_step, console_);
  if (resumed_ != nullptr)
    restore();
  else if (!options_.weights.empty())
    take_weights();
  directory_.write_config(job_);
  directory_.write(kClassesFile, {{"classes", train_data_.dataset->classes()}});
  net::Net& net = computation_->engine().net();
  directory_.write("plan.json",
                   plan_json(plan_, net.choices(), implementations_json(net), devices_));
  directory_.write("traffic.json", traffic_json(plan_, 0));
  report_from_here();
}

void Run::take_weights() {
  const MatchReport match = load_weights(options_.weights, computation_->tensors());
  report_match(options_.weights, match, console_);
  check_classes_of_run(options_, train_data_.dataset->classes(), match.all_fit(), console_);
}

void Run::restore() {
  const RunState& state = resumed_->state();
  warn_of_other_data(state, train_data_.dataset->fingerprint(), console_);
  warn_of_changes(state, job_, console_);
  warn_of_other_devices(state, published_, job_, console_);
  resumed_->restore(computation_->tensors());
  files_.begin_from(state.step, resumed_->weights_file());
  console_.info(text("resuming after step ", state.step, " of ", published_.steps, " from ",
                     files_.last().string()));
  resumed_.reset();
}

void Run::report_from_here() {
  report_.emplace(directory_,
                  Metrics::Options{.steps = published_.steps,
                                   .steps_done = published_.first_step,
                                   .last_step = published_.last_step,
                                   .log_every = job_.config.train.log_every,
                                   .global_batch = plan_.global_batch,
                                   .epoch_samples = train_data_.dataset->size(),
                                   .scalars = ScalarKeys(job_.network->scalars()),
                                   .test_scalars = ScalarKeys(job_.network->in_test().scalars())},
                  console_);
}

void Run::trained(StepReport report) {
  directory_.keep();
  report_->trained(report, report.step == published_.last_step || halted());
}

void Run::checkpoint(int64_t step) {
  if (files_.last_step() == step) return;
  const int64_t in_flight = computation_->in_flight();
  refuse_non_finite(computation_->tensors(), in_flight, step);
  RunState state = computation_->state_after(step);
  state.in_flight = in_flight;
  files_.write(state, computation_->tensors());
}

Json Run::end(const std::string& failure, bool is_whole) {
  console_.finish();
  Json result = summary(failure, is_whole);
  directory_.write_or_warn("summary.json", result, console_);
  write_own_trace();
  return result;
}

void Run::write_own_trace() const {
  if (!options_.trace) return;
  TraceCollection all;
  for (const TraceNote& spans : write_spans(trace_)) all.add({comm::Role::kWorker, 0}, spans);
  write_trace(all, directory_, console_);
}

/// `is_whole`: the tensors belong to a complete step. The summary has digests only if the tensors
/// are those of the last checkpoint.
Json Run::summary(const std::string& failure, bool is_whole) {
  const bool is_saved = is_whole && steps_saved() == computation_->steps_done();
  RunEnd end{.first_step = published_.first_step,
             .steps = steps_saved(),
             .steps_of_job = published_.steps,
             .wall_seconds = std::chrono::duration<double>(Clock::now() - start_).count(),
             .device = names_of(devices_),
             .servers = job_.config.cluster.servers,
             .threads = computation_->engine().threads(),
             .checkpoint = files_.last()};
  if (is_saved) {
    end.weights_sha256 = weights_sha256(computation_->tensors());
    end.state_sha256 = state_sha256(computation_->tensors(), computation_->in_flight());
  }
  report_->end(end.steps, failure);
  Json summary = report_->summary(job_, end);
  report_->add_sessions(summary);
  if (!failure.empty()) summary["failure"] = failure;
  return summary;
}

}  // namespace

Json train(const Job& job, const RunOptions& options, Console& console) {
  Run run(job, options, console);
  return recorded(console, [&] { return run.go(); });
}

}  // namespace poseidon::trainer
