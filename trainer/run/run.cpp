#include "trainer/run/run.h"

#include <chrono>
#include <cmath>

#include "core/error.h"
#include "trainer/job/choices.h"
#include "trainer/measure/memory_estimate.h"
#include "trainer/plan/published_plan.h"
#include "trainer/plan/sync_plan.h"
#include "trainer/report/metrics.h"
#include "trainer/report/run_directory.h"
#include "trainer/report/trace_file.h"
#include "trainer/state/checkpoint.h"
#include "trainer/state/resume.h"
#include "trainer/state/run_tensors.h"
#include "trainer/step/engine.h"
#include "trainer/step/exchange.h"
#include "trainer/step/training_loop.h"

namespace poseidon::trainer {

namespace fs = std::filesystem;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

data::LoaderOptions loader_options(const JobConfig& config,
                                   const std::vector<data::ShardRange>& shards,
                                   int64_t steps_done) {
  return {.phase = data::Phase::kTrain,
          .seed = static_cast<uint64_t>(config.train.seed),
          .shuffle = config.data.train.shuffle,
          .on_error = config.data.train.on_error,
          .global_batch = config.global_batch(),
          .shards = shards,
          .start_step = steps_done,
          .threads = static_cast<int>(config.data.loader_threads)};
}

/// One run of a job by one worker, from its directory to its summary.
class Run {
 public:
  Run(const Job& job, const RunOptions& options, Console& console);
  Json go();

 private:
  net::Choices choices() const;
  net::Net::Options net_options() const;
  void begin();
  void go_on_from_checkpoint();
  int64_t sums_carried() const { return resumed_ == nullptr ? 0 : resumed_->state().in_flight; }
  void train_to_the_end(TrainingLoop& loop, Metrics& metrics);
  bool stopped() const { return options_.stop != nullptr && *options_.stop; }
  void test_now(int64_t step, Metrics& metrics);
  void checkpoint(TrainingLoop& loop);
  void write_own_trace() const;
  Json summary(const TrainingLoop& loop, const Metrics& metrics);
  std::string last_checkpoint_text() const;

  const Clock::time_point start_ = Clock::now();
  const Job& job_;
  const RunOptions& options_;
  Console& console_;
  std::unique_ptr<Checkpoint> resumed_;
  PreparedData train_data_, test_data_;
  int64_t steps_, last_step_;
  Schedule schedule_;
  RunDirectory directory_;
  comm::Plan plan_;
  Engine engine_;
  Optimizer optimizer_;
  SumsInFlight sums_;
  RunTensors tensors_;
  TraceRecorder trace_;
  int64_t steps_done_ = 0;
  int64_t first_step_ = 1;  ///< of this run, counted from 1
  int64_t checkpoint_step_ = -1;
  fs::path last_checkpoint_;
  StepReport last_report_;
  std::optional<TestResult> last_test_;
  int64_t tested_step_ = -1;
};

Run::Run(const Job& job, const RunOptions& options, Console& console)
    : job_(job),
      options_(options),
      console_(console),
      resumed_(resumed_checkpoint(job, options.resume, console)),
      train_data_(open_data(job, DataPart::kTrain, console)),
      test_data_(open_test_data(job, train_data_, console)),
      steps_(steps_of(job.config.train, job.config.global_batch(), train_data_.dataset->size())),
      last_step_(std::min(steps_, options.max_steps.value_or(steps_))),
      schedule_(job.config.optimizer.schedule, job.config.optimizer.learning_rate, steps_,
                static_cast<double>(train_data_.dataset->size()) /
                    static_cast<double>(job.config.global_batch()),
                job.file + ": /optimizer/schedule"),
      directory_(open_run_directory(options.output, options.resume, job.config.name)),
      plan_(plan_of(job, resumed_.get(), options.replan)),
      engine_(job, net_options(), console),
      optimizer_(job.config.optimizer, engine_.net(), engine_.updater()),
      sums_(engine_.net(), std::max(plan_.staleness, sums_carried())),
      tensors_(tensors_of(engine_.net(), optimizer_, sums_)) {}

net::Choices Run::choices() const {
  if (resumed_ == nullptr || options_.replan) return choices_of(job_);
  return read_choices(resumed_->state().choices, {options_.resume.string(), "/choices"},
                      *job_.network);
}

/// Warns of the memory that the net will take, last before it is taken.
net::Net::Options Run::net_options() const {
  const net::Net::Options options{
      .choices = choices(), .factored = factored_layers(plan_), .factor_rows = plan_.global_batch};
  warn_of_memory(job_, estimate_memory(job_, plan_, options), 1, console_);
  return options;
}

void Run::begin() {
  directory_.make();
  engine_.net().values().initialize(static_cast<uint64_t>(job_.config.train.seed));
  if (resumed_ != nullptr) go_on_from_checkpoint();
  if (!options_.weights.empty() && resumed_ == nullptr)
    report_match(options_.weights, load_weights(options_.weights, tensors_), console_);
  directory_.write_config(job_);
  directory_.write(kClassesFile, {{"classes", train_data_.dataset->classes()}});
  directory_.write("plan.json", plan_json(plan_, engine_.net().choices()));
  directory_.write("traffic.json", traffic_json(plan_, 0));
}

void Run::go_on_from_checkpoint() {
  const RunState& state = resumed_->state();
  refuse_other_batch(state, job_, options_.resume);
  warn_of_other_data(state, train_data_.dataset->fingerprint(), console_);
  warn_of_changes(state, job_, console_);
  resumed_->restore(tensors_);
  sums_.begin_with(state.step - state.in_flight, state.in_flight);
  steps_done_ = checkpoint_step_ = state.step;
  first_step_ = state.step + 1;
  last_checkpoint_ = resumed_->weights_file();
  console_.info(text("going on after step ", state.step, " of ", steps_, " from ",
                     last_checkpoint_.string()));
  resumed_.reset();
}

Json Run::go() {
  begin();
  const int64_t logical_shards = job_.config.logical_shards();
  const std::vector<data::ShardRange> shards =
      data::cut_batch(job_.config.global_batch(), logical_shards);
  LocalExchange exchange(engine_.net(), engine_.updater(), logical_shards,
                         {.staleness = plan_.staleness, .first_step = steps_done_});
  data::Loader loader(*train_data_.dataset, *train_data_.transform,
                      loader_options(job_.config, shards, steps_done_), console_);
  TrainingLoop loop(engine_.net(), optimizer_, exchange, schedule_, loader,
                    {.seed = static_cast<uint64_t>(job_.config.train.seed),
                     .global_batch = job_.config.global_batch(),
                     .logical_shards = logical_shards,
                     .shards = shards,
                     .steps_done = steps_done_,
                     .staleness = plan_.staleness,
                     .sums = &sums_,
                     .trace = options_.trace ? &trace_ : nullptr});
  Metrics metrics(directory_.path(),
                  {.steps = steps_,
                   .steps_done = steps_done_,
                   .log_every = job_.config.train.log_every,
                   .global_batch = job_.config.global_batch(),
                   .epoch_samples = train_data_.dataset->size(),
                   .before_writing = [this] { directory_.check_lock(); }},
                  console_);
  try {
    train_to_the_end(loop, metrics);
  } catch (const RunError& error) {
    if (options_.trace) write_own_trace();
    throw RunError(error.what() + last_checkpoint_text());
  }
  console_.finish();
  if (options_.trace) write_own_trace();
  Json result = summary(loop, metrics);
  directory_.write_or_warn("summary.json", result, console_);
  return result;
}

void Run::train_to_the_end(TrainingLoop& loop, Metrics& metrics) {
  const TrainConfig& train = job_.config.train;
  const auto due = [&](int64_t every) { return every > 0 && loop.steps_done() % every == 0; };
  while (loop.steps_done() < last_step_ && !stopped()) {
    last_report_ = loop.step();
    directory_.keep();
    const bool last = last_report_.step == last_step_ || stopped();
    metrics.trained(last_report_, last);
    if (last) break;
    if (due(train.checkpoint_every)) checkpoint(loop);
    if (!due(train.test_every)) continue;
    loop.settle();
    test_now(last_report_.step, metrics);
  }
  if (loop.steps_done() == steps_) loop.finish();
  checkpoint(loop);
  if (stopped())
    console_.info(stopped_text(loop.steps_done(), steps_, directory_.path()));
  else
    test_now(loop.steps_done(), metrics);
}

void Run::test_now(int64_t step, Metrics& metrics) {
  if (test_data_.dataset == nullptr || tested_step_ == step) return;
  const std::optional<TestResult> result =
      evaluate(engine_.net(), test_data_,
               {.seed = static_cast<uint64_t>(job_.config.train.seed),
                .loader_threads = static_cast<int>(job_.config.data.loader_threads),
                .on_error = job_.config.data.test.on_error,
                .stop = [this] { return stopped(); }},
               console_);
  if (!result) return;
  metrics.tested(step, *result);
  last_test_ = result;
  tested_step_ = step;
}

void Run::checkpoint(TrainingLoop& loop) {
  if (loop.steps_done() == checkpoint_step_) return;
  loop.settle_for_checkpoint();
  refuse_non_finite(tensors_, sums_.steps(), loop.steps_done());
  const Json decisive = job_.decisive_part();
  last_checkpoint_ = write_checkpoint(directory_.checkpoints(),
                                      {.step = loop.steps_done(),
                                       .samples = loop.steps_done() * job_.config.global_batch(),
                                       .learning_rate = schedule_.learning_rate(loop.steps_done()),
                                       .config_hash = config_hash(decisive),
                                       .config = decisive,
                                       .choices = choices_json(engine_.net().choices()),
                                       .plan = comm::to_json(plan_),
                                       .dataset = train_data_.dataset->fingerprint(),
                                       .in_flight = sums_.steps()},
                                      tensors_, {.may_write = [this] { directory_.check_lock(); }});
  checkpoint_step_ = loop.steps_done();
  directory_.keep();
  prune_checkpoints(directory_.path(), job_.config.train.keep_checkpoints);
}

std::string Run::last_checkpoint_text() const {
  return last_checkpoint_.empty() ? "; there is no checkpoint yet"
                                  : "; the last checkpoint is " + last_checkpoint_.string();
}

void Run::write_own_trace() const {
  TraceCollection all;
  for (const TraceNote& spans : write_spans(trace_)) all.add({comm::Role::kWorker, 0}, spans);
  write_trace(all, directory_.path(), console_);
}

Json Run::summary(const TrainingLoop& loop, const Metrics& metrics) {
  const bool trained = last_report_.step > 0;
  Json json{{"name", job_.config.name},
            {"first_step", first_step_},
            {"steps", loop.steps_done()},
            {"train_loss", trained ? Json(last_report_.loss) : Json()},
            {"test_top1", last_test_ ? Json(last_test_->top1) : Json()},
            {"test_top5", last_test_ ? Json(last_test_->top5) : Json()},
            {"test_loss", last_test_ ? Json(last_test_->loss) : Json()},
            {"test_step", last_test_ ? Json(tested_step_) : Json()},
            {"samples_per_second", metrics.samples_per_second()},
            {"bytes_sent", 0},
            {"bytes_received", 0},
            {"wall_seconds", seconds_since(start_)},
            {"weights_sha256", weights_sha256(tensors_)},
            {"state_sha256", state_sha256(tensors_, sums_.steps())},
            {"workers", job_.config.cluster.workers},
            {"servers", job_.config.cluster.servers},
            {"device", job_.config.device.type},
            {"threads", engine_.threads()},
            {"finished", loop.steps_done() >= steps_},
            {"checkpoint", last_checkpoint_.string()},
            {"output", directory_.path().string()}};
  return json;
}

}  // namespace

Json train(const Job& job, const RunOptions& options, Console& console) {
  return Run(job, options, console).go();
}

}  // namespace poseidon::trainer
