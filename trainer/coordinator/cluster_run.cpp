#include "trainer/coordinator/cluster_run.h"

#include <cmath>

#include "core/cores.h"
#include "core/counted.h"
#include "core/failure.h"
#include "trainer/coordinator/cluster_run_parts.h"
#include "trainer/job/choices.h"
#include "trainer/measure/memory_estimate.h"
#include "trainer/messages/facts.h"
#include "trainer/messages/member_end.h"
#include "trainer/state/resume.h"
#include "trainer/state/run_tensors.h"
#include "trainer/state/tensor_check.h"

namespace poseidon::trainer {

namespace {

constexpr auto kTick = std::chrono::milliseconds(100);
constexpr auto kPatience = std::chrono::seconds(5);
constexpr auto kBetweenClockQuestions = std::chrono::milliseconds(200);
constexpr int kClockQuestions = 4;
constexpr double kLeastJoinSeconds = 5;
/// A child looks for this process for one join timeout; until all have joined it takes longer.
constexpr int kJoinDeadlines = 3;

}  // namespace

ClusterRun::ClusterRun(const Job& job, const RunOptions& options, const ClusterOptions& cluster,
                       Console& console)
    : job_(job),
      options_(options),
      cluster_(cluster),
      console_(console),
      directory_(open_run_directory(options.output, options.resume, job.config.name)),
      intake_([this] { return make_store(); }),
      checkpoints_(
          directory_, job.config.train.keep_checkpoints,
          [this](int64_t step) { return state_after(step); },
          [this](uint16_t worker, int64_t step) { tell_written(worker, step); }) {
  std::unique_ptr<Checkpoint> checkpoint = first_checkpoint();
  if (checkpoint != nullptr)
    checkpoints_.begin_from(checkpoint->state().step, checkpoint->weights_file());
  go_on_from(std::move(checkpoint));
  launcher_ = make_launcher(cluster, {.run = std::filesystem::absolute(directory_.path()),
                                      .threads = threads_of_worker(),
                                      .join_timeout = join_timeout()});
  const Gathering& gathering = launcher_->gathering();
  comm::AsioOptions listening;
  listening.listen = gathering.listen;
  listening.self = {.role = comm::Role::kCoordinator,
                    .rank = 0,
                    .view = 1,
                    .job = comm::make_job_id(),
                    .address = ""};
  listening.secret = gathering.secret;
  listening.tls = gathering.tls;
  listening.insecure = gathering.insecure;
  listening.log = std::shared_ptr<Log>(&console, [](Log*) {});
  listening.on_failure = [this](std::exception_ptr failure) {
    inbox_.post([this, failure] { lose_transport(failure); });
  };
  transport_ = std::make_unique<comm::AsioTransport>(std::move(listening));
}

/// Whether it begins with the latest step of its run that anybody has, not with a certain one.
bool ClusterRun::goes_on() const {
  return cluster_.external && std::filesystem::is_directory(options_.resume);
}

/// Null where the run begins anew.
std::unique_ptr<Checkpoint> ClusterRun::first_checkpoint() const {
  if (goes_on() && !has_checkpoint(options_.resume)) {
    console_.info(text(options_.resume.string(),
                       ": has no checkpoint yet: the run begins anew, unless a worker keeps a "
                       "step of it"));
    return nullptr;
  }
  std::unique_ptr<Checkpoint> checkpoint = resumed_checkpoint(job_, options_.resume, console_);
  if (checkpoint != nullptr) warn_of_changes(checkpoint->state(), job_, console_);
  return checkpoint;
}

/// The plan, until all workers are prepared, and where it begins.
void ClusterRun::go_on_from(std::unique_ptr<Checkpoint> checkpoint) {
  resumed_ = std::move(checkpoint);
  if (!MeasuredPlan::wanted(job_, resumed_.get(), options_.replan))
    measured_.reset();
  else if (!measured_)
    measured_.emplace(job_);
  plan_ = measured_ ? measured_->provisional() : plan_of(job_, resumed_.get(), options_.replan);
  if (plan_.overlap == comm::Overlap::kPriority && plan_.staleness == 0 &&
      job_.config.optimizer.clip_norm > 0)
    plan_.overlap = comm::Overlap::kBarrier;
  published_ = begun_plan(job_, plan_, resumed_.get(), options_);
}

/// The I/O thread uses what is destroyed next.
ClusterRun::~ClusterRun() { transport_->stop(); }

/// Of a local child.
std::chrono::seconds ClusterRun::join_timeout() const {
  return std::chrono::seconds(
      static_cast<int64_t>(std::ceil(std::max(kLeastJoinSeconds, job_.config.cluster.timeout_s))));
}

/// Of local workers, which share the host's cores.
int64_t ClusterRun::threads_of_worker() const {
  const int64_t threads = job_.config.device.threads;
  return threads > 0 ? threads : std::max<int64_t>(1, available_cores() / plan_.workers());
}

/// Servers first: they have less to do before they can be reached.
std::vector<comm::NodeId> ClusterRun::members() const {
  std::vector<comm::NodeId> all;
  for (const auto& [role, count] : {std::pair{comm::Role::kServer, plan_.servers()},
                                    std::pair{comm::Role::kWorker, plan_.workers()}})
    for (int64_t rank = 0; rank < count; ++rank) all.push_back({role, static_cast<uint16_t>(rank)});
  return all;
}

/// Local children read what this process can read, and have this machine's memory: errors and
/// warnings of this process are the clearer ones.
void ClusterRun::look_at_data_and_memory() {
  const size_t data = check_data(job_, console_);
  MemoryEstimate estimate = estimate_memory(job_, plan_, net_options(job_, published_, plan_, 2));
  estimate.data = data;
  warn_of_memory(job_, estimate, plan_.workers(), console_);
}

Json ClusterRun::go() {
  const Gathering& gathering = launcher_->gathering();
  if (gathering.on_this_host) look_at_data_and_memory();
  if (!options_.weights.empty()) check_weights_file(options_.weights);
  directory_.make();
  directory_.write_config(job_);
  JobMessage message = job_message(job_);
  message.times_layers = measured_.has_value();
  message.run = directory_.id();
  message.goes_on = goes_on();
  job_message_ = write_job_message(std::move(message));
  const auto seconds = [](double value) {
    return std::chrono::duration_cast<comm::Time>(std::chrono::duration<double>(value));
  };
  coordinator_ = std::make_unique<comm::Coordinator>(
      comm::Coordinator::Options{.workers = static_cast<uint16_t>(plan_.workers()),
                                 .servers = static_cast<uint16_t>(plan_.servers()),
                                 .facts = {{"build", build_identity()}},
                                 .timeout = seconds(job_.config.cluster.timeout_s),
                                 .stall_timeout = seconds(job_.config.cluster.stall_timeout_s),
                                 .gather_timeout = gathering.by_themselves
                                                       ? comm::Time{0}
                                                       : kJoinDeadlines * join_timeout(),
                                 .replaces_members = gathering.by_themselves},
      *transport_, *this);
  if (gathering.by_themselves)
    console_.info(text("waiting for ", counted(plan_.workers(), "worker"), " and ",
                       counted(plan_.servers(), "server"), " at ", transport_->address()));
  launcher_->start(members(), transport_->address());
  transport_->start(*coordinator_);
  transport_->post([this] { coordinator_->begin(); });
  loop();
  transport_->stop();
  // Before the first step members have nothing to finish.
  launcher_->wait(begun_ ? kPatience : std::chrono::milliseconds(200));
  return finish();
}

void ClusterRun::loop() {
  while (!outcome_) attempt([this] { take_turn(); });
  // What was said before the end still counts.
  bool more = true;
  while (more) attempt([&] { more = inbox_.run_one(Inbox::Clock::now()); });
}

void ClusterRun::take_turn() {
  inbox_.run_one(Inbox::Clock::now() + kTick);
  if (!loss_) watch_members();
  if (halted_ || options_.stop == nullptr || !*options_.stop) return;
  halted_ = true;
  transport_->post([this] { coordinator_->halt(); });
}

/// The members are told why; what goes wrong after a first loss is only said.
void ClusterRun::fail_by(const std::exception_ptr& thrown) {
  if (failure_ || loss_) return console_.warning(message_of(thrown));
  failure_ = thrown;
  report_error(message_of(thrown));
}

/// Without the I/O thread nobody can be told, or asked for anything.
void ClusterRun::lose_transport(const std::exception_ptr& thrown) {
  if (!failure_) failure_ = thrown;
  outcome_ = {
      .finished = false, .loss = loss_ ? *loss_ : own_loss(message_of(thrown)), .saved_step = {}};
}

comm::Loss ClusterRun::own_loss(const std::string& why) const {
  return {.kind = comm::Loss::Kind::kError,
          .who = {},
          .address = "",
          .why = why,
          .step = begun_ ? std::max(report_->last_step(), published_.first_step) + 1 : 0,
          .awaited = ""};
}

/// One that ends before it has a connection could not even join.
void ClusterRun::watch_members() {
  for (const Launcher::Ended& member : launcher_->ended())
    transport_->post([this, member] { coordinator_->report_absent(member.node, member.how); });
}

void ClusterRun::report_error(const std::string& why) {
  transport_->post([this, why] { coordinator_->report_error(why); });
}

void ClusterRun::end_after(const comm::Loss& loss) {
  loss_ = loss;
  // Who is silent may be stopped, and would never end by itself.
  if (end_of(loss) == MemberEnd::kPeerLost) launcher_->kill(loss.who);
  if (comm::survivors_count(loss)) write_checkpoints([this] { checkpoints_.trust_survivors(); });
}

void ClusterRun::begin_metrics(const std::vector<comm::Fact>& facts) {
  facts_ = facts;
  if (resumed_ != nullptr)
    warn_of_other_data(resumed_->state(), fact(facts, "the training set"), console_);
  const int64_t epoch = training_samples(facts);
  schedule_.emplace(schedule_of(job_, published_.steps, epoch));
  report_.emplace(plan_, directory_,
                  Metrics::Options{.steps = published_.steps,
                                   .steps_done = published_.first_step,
                                   .log_every = job_.config.train.log_every,
                                   .global_batch = plan_.global_batch,
                                   .epoch_samples = epoch},
                  console_);
}

void ClusterRun::take_note(comm::NodeId node, const comm::Note& note) {
  const auto taken = [&](const auto& content) { take(node, note.step, content); };
  guarded(node, [&] {
    if (!report_) throw ConfigError("a note before the plan was made");
    if (node.role == comm::Role::kWorker)
      dispatch<TensorsNote, ClassesNote, StepNote, TestNote, TrafficNote, TraceNote>(note, taken);
    else
      dispatch<TrafficNote, TraceNote>(note, taken);
  });
}

void ClusterRun::take(comm::NodeId worker, int64_t, const TensorsNote& note) {
  if (!values_made_) make_values(note);
  Json places = Json::array();
  for (const PlacedTensor& tensor : values_) places.push_back(tensor.place);
  transport_->post([this, worker = worker.rank, places, values = values_] {
    coordinator_->note(
        worker,
        {.about = "values", .step = published_.first_step, .content = {{"tensors", places}}});
    for (const auto& [place, tensor] : values)
      comm::send_tensor({.view = 1, .key = place}, tensor,
                        [&](const comm::FrameHeader& header, const comm::Payload& payload) {
                          coordinator_->send(worker, header, payload);
                        });
  });
}

/// From the first worker's word of what it has.
void ClusterRun::make_values(const TensorsNote& note) {
  check_tensors(note.list, *job_.network, job_.config.optimizer,
                std::max(plan_.staleness, published_.in_flight));
  choices_ = read_choices(note.choices, {"its choices", ""}, *job_.network);
  threads_ = note.threads;
  values_made_ = true;
  {
    MutexLock lock(mutex_);
    tensor_list_ = note.list;
  }
  values_ = first_values(note.list, resumed_.get(), options_.weights, console_);
  if (resumed_ != nullptr)
    console_.info(text("going on after step ", published_.first_step, " of ", published_.steps,
                       " from ", checkpoints_.last().string()));
  resumed_.reset();
  Json plan = plan_json(plan_, choices_);
  if (!no_factors_.empty()) plan["reason"] = no_factors_;
  directory_.write("plan.json", plan);
}

/// Data may be where the workers are, and not here; all have the same.
void ClusterRun::take(comm::NodeId worker, int64_t, const ClassesNote& note) {
  if (worker.rank != 0) throw ConfigError("classes, which worker 0 tells");
  const auto most = static_cast<size_t>(job_.network->classes());
  if (note.classes.size() > most)
    throw ConfigError(text(note.classes.size(), " classes, where network \"", job_.network->name(),
                           "\" tells only ", most, " apart"));
  directory_.write(kClassesFile, {{"classes", note.classes}});
}

void ClusterRun::take(comm::NodeId worker, int64_t step, const StepNote& note) {
  if (!begun_) throw ConfigError("a step before the first one was begun");
  directory_.keep();
  if (report_->take_step(worker.rank, step, note, published_.last_step) && options_.trace)
    ask_for_time();
}

void ClusterRun::take(comm::NodeId worker, int64_t step, const TestNote& note) {
  report_->take_test(worker.rank, step, note);
}

void ClusterRun::take(comm::NodeId node, int64_t, const TrafficNote& note) {
  report_->take_traffic(node, note);
}

void ClusterRun::take(comm::NodeId node, int64_t, const TraceNote& note) {
  if (!options_.trace) throw ConfigError("a trace that was not asked for");
  trace_.add(node, note);
}

/// A checkpoint that cannot be written ends the job, and all are told why; of a job that has ended
/// already, the user.
void ClusterRun::write_checkpoints(const std::function<void()>& action) {
  try {
    action();
  } catch (const RunError& error) {
    if (loss_) return console_.warning(error.what());
    report_error(error.what());
  }
}

/// What a worker has kept is from now on a checkpoint like others.
void ClusterRun::write_kept_step(uint16_t worker, const RunState& state, TensorStore& tensors,
                                 const SentCheckpoint& sent) {
  checkpoints_.put(state, tensors, sent);
  console_.info(text("worker ", worker, " has kept step ", state.step, ": fetched, and written to ",
                     checkpoints_.last().string()));
  auto checkpoint = std::make_shared<std::unique_ptr<Checkpoint>>(
      resumed_checkpoint(job_, checkpoints_.last(), console_));
  warn_of_changes((*checkpoint)->state(), job_, console_);
  transport_->post([this, worker, step = state.step, checkpoint] {
    keeper_.reset();
    offers_.erase(worker);
    coordinator_->note(worker, write_note(WrittenNote{}, step));
    go_on_from(std::move(*checkpoint));
    coordinator_->fetched();
  });
}

void ClusterRun::tell_written(uint16_t worker, int64_t step) {
  transport_->post(
      [this, worker, step] { coordinator_->note(worker, write_note(WrittenNote{}, step)); });
}

RunState ClusterRun::state_after(int64_t step) const {
  return run_state(job_, published_, *schedule_, step, choices_, fact(facts_, "the training set"));
}

/// Now and then while the run goes, since clocks drift; the fastest answers count.
void ClusterRun::ask_for_time() {
  const auto now = std::chrono::steady_clock::now();
  if (now - asked_for_time_ < kBetweenClockQuestions) return;
  asked_for_time_ = now;
  transport_->post([this] {
    for (int i = 0; i < kClockQuestions; ++i)
      coordinator_->note_members(write_note(clock_question()));
  });
}

Json ClusterRun::finish() {
  console_.finish();
  // The members may be done before what they have sent could be used.
  if (outcome_->finished && failure_)
    outcome_ = {.finished = false, .loss = own_loss(message_of(failure_)), .saved_step = {}};
  if (!outcome_->finished) fail();
  if (halted_)
    console_.info(stopped_text(checkpoints_.saved_step(), published_.steps, directory_.path()));
  const Json traffic = report_->traffic(checkpoints_.saved_step() - published_.first_step);
  Json all = summary(traffic);
  write_summary(all, traffic);
  return all;
}

/// Ends with the loss; after the first step tables and trace are written as far as they are known.
void ClusterRun::fail() {
  if (halted_ && !begun_)
    throw RunError("stopped before the first step" + checkpoints_.last_text());
  if (failure_ && !begun_) std::rethrow_exception(failure_);
  const std::string why = failure();
  if (begun_) {
    const int64_t steps = std::max(checkpoints_.saved_step(), report_->last_step());
    const Json traffic = report_->traffic(steps - published_.first_step);
    Json known = summary(traffic);
    known["failure"] = why;
    attempt([&] { write_summary(known, traffic); });  // the disk may be what failed
    cluster_.failed(known);
  }
  const std::string what = why + checkpoints_.last_text();
  if (end_of(outcome_->loss) == MemberEnd::kPeerLost) throw PeerLost(what);
  throw RunError(what);
}

/// What the coordinator decided on; and of a member, what only who has started it knows.
std::string ClusterRun::failure() const {
  const comm::Loss& loss = outcome_->loss;
  const std::string end = loss.kind == comm::Loss::Kind::kPeer ? launcher_->end_of(loss.who) : "";
  return loss.message() + (end.empty() || end == loss.why ? "" : "; " + end);
}

void ClusterRun::write_summary(const Json& summary, const Json& traffic) const {
  if (options_.trace) write_trace(trace_, directory_.path(), console_);
  directory_.write_or_warn("traffic.json", traffic, console_);
  directory_.write_or_warn("summary.json", summary, console_);
}

Json ClusterRun::summary(const Json& traffic) const {
  return report_->summary(
      job_,
      {.first_step = published_.first_step,
       .steps = checkpoints_.saved_step(),
       .steps_of_job = published_.steps,
       .wall_seconds =
           std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(),
       .servers = plan_.servers(),
       .threads = threads_,
       .weights_sha256 = checkpoints_.weights_digest(),
       .state_sha256 = checkpoints_.state_digest(),
       .checkpoint = checkpoints_.last()},
      traffic);
}

Json train_on_cluster(const Job& job, const RunOptions& options, const ClusterOptions& cluster,
                      Console& console) {
  return ClusterRun(job, options, cluster, console).go();
}

}  // namespace poseidon::trainer
