#include "trainer/cluster_run.h"

#include <cmath>
#include <thread>

#include "comm/coordinator.h"
#include "core/error.h"
#include "trainer/cluster_checkpoints.h"
#include "trainer/cluster_report.h"
#include "trainer/engine.h"
#include "trainer/first_values.h"
#include "trainer/inbox.h"
#include "trainer/job_message.h"
#include "trainer/launch.h"
#include "trainer/measured_plan.h"
#include "trainer/resume.h"
#include "trainer/run_directory.h"
#include "trainer/sync_plan.h"
#include "trainer/tensor_stream.h"
#include "trainer/trace_file.h"

namespace poseidon::trainer {

namespace {

constexpr auto kTick = std::chrono::milliseconds(100);
constexpr auto kPatience = std::chrono::seconds(5);
constexpr auto kBetweenClockQuestions = std::chrono::milliseconds(200);
constexpr int kClockQuestions = 4;
constexpr double kLeastJoinSeconds = 5;
/// A child looks for this process for one join timeout; until all have joined it takes longer.
constexpr int kJoinDeadlines = 3;

/// One run of a job by several workers. The main thread writes files and talks to the user; the I/O
/// thread calls the functions of comm::CoordinatorHost.
class ClusterRun final : public comm::CoordinatorHost {
 public:
  ClusterRun(const Job& job, const RunOptions& options, const ClusterOptions& cluster,
             Console& console);
  Json go();

 private:
  // The I/O thread.
  Json job() override { return job_message_; }
  void refused(const std::string& address, const std::string& why) override;
  void joined(comm::NodeId node, const std::string& address) override;
  bool wants_link() override { return measured_ && measured_->wants_link(); }
  void measured_link(double mbps, bool one_host) override;
  Json plan(const std::vector<comm::Fact>& facts) override;
  void started() override;
  void noted(comm::NodeId node, const comm::Note& note) override;
  void agreed(int64_t step) override;
  std::string tensor_name(size_t index) override;
  comm::Placement place(uint16_t worker, const comm::FrameHeader& header) override;
  void received(uint16_t, const comm::FrameHeader&) override {}
  void failed(const comm::Loss& loss) override;
  bool wants_checkpoint(int64_t step) override {
    return !drifted_ && step > checkpoints_.saved_step();
  }
  void saved(uint16_t, int64_t) override {}
  void slow(comm::NodeId node, const std::string& what) override;
  void take_clock(comm::NodeId node, const comm::Note& note);
  void take_times(comm::NodeId node, const comm::Note& note);
  void ended(const comm::Outcome& outcome) override;

  // The main thread.
  std::chrono::seconds join_timeout() const;
  void start_children(const comm::Secret& secret);
  void loop();
  void watch_children();
  void end_after(const comm::Loss& loss);
  void report_error(const std::string& why);
  void begin_metrics(const std::vector<comm::Fact>& facts);
  void take_note(comm::NodeId node, const comm::Note& note);
  template <class Action>
  void guarded(comm::NodeId node, Action action);
  void ask_for_time();
  void send_values(uint16_t worker, const Json& content);
  void make_values(const Json& content);
  void take_step(uint16_t worker, const comm::Note& note);
  RunState state_after(int64_t step) const;
  Json finish();
  [[noreturn]] void fail();
  std::string failure() const;
  void write_summary(const Json& summary, const Json& traffic) const;
  Json summary(const Json& traffic) const;

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const Job& job_;
  const RunOptions& options_;
  const ClusterOptions& cluster_;
  Console& console_;
  std::unique_ptr<Checkpoint> resumed_;
  std::optional<MeasuredPlan> measured_;  ///< in the I/O thread, where the plan is made
  comm::Plan plan_;                       ///< before all are prepared: provisional
  RunDirectory directory_;
  Json job_message_;
  PublishedPlan published_;
  std::vector<comm::Fact> facts_;
  std::optional<Schedule> schedule_;
  std::optional<ClusterReport> report_;

  Inbox inbox_;
  comm::Secret secret_;
  std::unique_ptr<comm::AsioTransport> transport_;
  std::unique_ptr<comm::Coordinator> coordinator_;
  std::optional<Children> children_;
  std::optional<comm::Outcome> outcome_;
  std::optional<comm::Loss> loss_;
  bool halted_ = false, begun_ = false;

  Mutex mutex_;
  Json tensor_list_ GUARDED_BY(mutex_);
  std::shared_ptr<TensorStore> incoming_;  ///< in the I/O thread: the checkpoint that comes in
  uint64_t incoming_step_ = UINT64_MAX;
  bool drifted_ = false;  ///< in the I/O thread: nobody knows whose state is right

  net::Choices choices_;
  int64_t threads_ = 0;
  bool values_made_ = false;
  std::vector<PlacedTensor> values_;
  TraceCollection trace_;  ///< with --trace
  std::chrono::steady_clock::time_point asked_for_time_{};
  ClusterCheckpoints checkpoints_;
};

ClusterRun::ClusterRun(const Job& job, const RunOptions& options, const ClusterOptions& cluster,
                       Console& console)
    : job_(job),
      options_(options),
      cluster_(cluster),
      console_(console),
      resumed_(options.resume.empty() ? nullptr : open_checkpoint(options.resume, console)),
      measured_(MeasuredPlan::wanted(job, resumed_.get(), options.replan)
                    ? std::optional<MeasuredPlan>(job)
                    : std::nullopt),
      plan_(measured_ ? measured_->provisional() : plan_of(job, resumed_.get(), options.replan)),
      directory_(open_run_directory(options.output, options.resume, job.config.name)),
      job_message_(write_job_message(job, measured_.has_value())),
      checkpoints_(directory_.checkpoints(), [this](int64_t step) { return state_after(step); }) {
  if (plan_.overlap == comm::Overlap::kPriority && job.config.optimizer.clip_norm > 0)
    plan_.overlap = comm::Overlap::kBarrier;
  published_.plan = comm::to_json(plan_);
  published_.choices =
      choices_json(resumed_ != nullptr && !options.replan
                       ? read_choices(resumed_->state().choices,
                                      {options.resume.string(), "/choices"}, *job.network)
                       : choices_of(job));
  published_.trace = options.trace;
  if (!cluster.external)
    published_.run_directory = std::filesystem::absolute(directory_.path()).string();
  if (resumed_ != nullptr) {
    refuse_other_batch(resumed_->state(), job, options.resume);
    warn_of_changes(resumed_->state(), job, console);
    published_.first_step = resumed_->state().step;
    checkpoints_.begin_from(published_.first_step, resumed_->weights_file());
  }
  secret_ = cluster.external ? cluster.secret : random_secret();
  comm::AsioOptions listening;
  listening.listen = cluster.external ? cluster.listen : "127.0.0.1:0";
  listening.self = {.role = comm::Role::kCoordinator, .rank = 0, .view = 1, .address = ""};
  listening.secret = secret_;
  if (cluster.external) listening.tls = cluster.tls;
  listening.insecure = cluster.insecure;
  listening.log = std::shared_ptr<Log>(&console, [](Log*) {});
  listening.on_failure = [this](std::exception_ptr failure) {
    inbox_.post([failure] { std::rethrow_exception(failure); });
  };
  transport_ = std::make_unique<comm::AsioTransport>(std::move(listening));
}

/// Of a local child.
std::chrono::seconds ClusterRun::join_timeout() const {
  return std::chrono::seconds(
      static_cast<int64_t>(std::ceil(std::max(kLeastJoinSeconds, job_.config.cluster.timeout_s))));
}

/// Before the I/O thread runs: a process forks best while it has one thread.
void ClusterRun::start_children(const comm::Secret& secret) {
  const int64_t cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
  const int64_t threads = job_.config.device.threads;
  children_.emplace(Children::Options{
      .programs = program_folder(),
      .logs = directory_.path() / "logs",
      .coordinator = transport_->address(),
      .secret = secret,
      .threads = threads > 0 ? threads : std::max<int64_t>(1, cores / plan_.workers),
      .join_timeout = join_timeout()});
  for (const comm::Role role : {comm::Role::kServer, comm::Role::kWorker}) {
    const int64_t count = role == comm::Role::kWorker ? plan_.workers : plan_.servers;
    for (int64_t rank = 0; rank < count; ++rank)
      children_->start({role, static_cast<uint16_t>(rank)});
  }
}

Json ClusterRun::go() {
  // Local children read what this process can read: its errors are the clearer ones.
  if (!cluster_.external) check_data(job_, console_);
  directory_.write_config(job_);
  const auto seconds = [](double value) {
    return std::chrono::duration_cast<comm::Time>(std::chrono::duration<double>(value));
  };
  coordinator_ = std::make_unique<comm::Coordinator>(
      comm::Coordinator::Options{
          .workers = static_cast<uint16_t>(plan_.workers),
          .servers = static_cast<uint16_t>(plan_.servers),
          .facts = {{"build", build_identity()}},
          .timeout = seconds(job_.config.cluster.timeout_s),
          .stall_timeout = seconds(job_.config.cluster.stall_timeout_s),
          .gather_timeout = cluster_.external ? comm::Time{0} : kJoinDeadlines * join_timeout(),
          .replaces_members = cluster_.external,
          .first_step = published_.first_step},
      *transport_, *this);
  if (cluster_.external)
    console_.info(text("waiting for ", plan_.workers, " workers and ", plan_.servers,
                       " servers at ", transport_->address()));
  else
    start_children(secret_);
  transport_->start(*coordinator_);
  transport_->post([this] { coordinator_->begin(); });
  loop();
  transport_->stop();
  // Before the first step children have nothing to finish.
  if (children_) children_->wait(begun_ ? kPatience : std::chrono::milliseconds(200));
  return finish();
}

void ClusterRun::loop() {
  while (!outcome_) {
    inbox_.run_one(Inbox::Clock::now() + kTick);
    if (children_ && !loss_) watch_children();
    if (!halted_ && options_.stop != nullptr && *options_.stop) {
      halted_ = true;
      transport_->post([this] {
        if (coordinator_->running())
          coordinator_->halt();
        else
          coordinator_->report_error("stopped before the first step");
      });
    }
  }
  // What was said before the end still counts.
  while (inbox_.run_one(Inbox::Clock::now())) {
  }
}

/// A child that ends before it has a connection could not even join.
void ClusterRun::watch_children() {
  for (const Children::Ended& child : children_->ended())
    transport_->post([this, child] { coordinator_->report_absent(child.node, child.how); });
}

void ClusterRun::report_error(const std::string& why) {
  transport_->post([this, why] { coordinator_->report_error(why); });
}

// ---- the I/O thread

void ClusterRun::refused(const std::string& address, const std::string& why) {
  inbox_.post([this, address, why] {
    console_.warning(text("a node at ", address, " is not let in: ", why));
  });
  if (!cluster_.external) coordinator_->report_error(text("the node at ", address, ": ", why));
}

void ClusterRun::joined(comm::NodeId node, const std::string& address) {
  if (!cluster_.external) return;
  const std::string missing = coordinator_->missing();
  inbox_.post([this, node, address, missing] {
    console_.info(text(comm::name_of(node), " joined from ", address,
                       missing.empty() ? "" : text("; waiting for ", missing)));
  });
}

void ClusterRun::measured_link(double mbps, bool one_host) {
  measured_->set_link(mbps);
  inbox_.post([this, mbps, one_host] {
    console_.info(
        one_host
            ? text("all workers are on one host: the plan takes loopback's ", mbps,
                   " Mb/s, measured now, for the network; \"comm.link_mbps\" would say another")
            : text("the network between the workers takes ", mbps,
                   " Mb/s each way, measured now; the plan is made for that"));
  });
}

Json ClusterRun::plan(const std::vector<comm::Fact>& facts) {
  try {
    if (measured_) {
      plan_ = measured_->make();
      published_.plan = comm::to_json(plan_);
    }
    const std::string samples = fact(facts, "the number of training samples");
    published_.steps =
        steps_of(job_.config.train, plan_.global_batch, samples.empty() ? 1 : std::stoll(samples));
    published_.last_step =
        std::min(published_.steps, options_.max_steps.value_or(published_.steps));
  } catch (const ConfigError&) {
    inbox_.post([failure = std::current_exception()] { std::rethrow_exception(failure); });
  }
  inbox_.post([this, facts] { begin_metrics(facts); });
  return write_published_plan(published_);
}

void ClusterRun::started() {
  inbox_.post([this] {
    begun_ = true;
    values_.clear();
    console_.info(text(plan_.workers, " workers and ", plan_.servers, " servers begin with step ",
                       published_.first_step + 1, " of ", published_.steps));
    if (options_.trace) ask_for_time();
  });
}

void ClusterRun::noted(comm::NodeId node, const comm::Note& note) {
  if (note.about == "clock") return take_clock(node, note);
  if (note.about == "times" && measured_) return take_times(node, note);
  std::shared_ptr<TensorStore> tensors;
  if (note.about == "checkpoint") {
    tensors = std::move(incoming_);
    incoming_step_ = UINT64_MAX;
  }
  inbox_.post([this, node, note, tensors] {
    if (note.about == "checkpoint")
      checkpoints_.take(note.step, tensors);
    else
      take_note(node, note);
  });
}

void ClusterRun::take_clock(comm::NodeId node, const comm::Note& note) {
  inbox_.post([this, node, note, now = TraceRecorder::now()] {
    guarded(node, [&] { trace_.answered(node, note, now); });
  });
}

/// Before the worker says that it is prepared: the plan needs those of all.
void ClusterRun::take_times(comm::NodeId node, const comm::Note& note) {
  try {
    measured_->add_times(note.content);
  } catch (const std::exception& error) {
    inbox_.post([this, why = text(comm::name_of(node), " sent times that cannot be read: ",
                                  error.what())] { report_error(why); });
  }
}

void ClusterRun::agreed(int64_t step) {
  inbox_.post([this, step] { checkpoints_.agreed(step); });
}

std::string ClusterRun::tensor_name(size_t index) {
  MutexLock lock(mutex_);
  for (const char* key : {"weights", "optimizer"}) {
    if (!tensor_list_.contains(key)) continue;
    if (index < tensor_list_[key].size())
      return tensor_list_[key][index]["name"].get<std::string>();
    index -= tensor_list_[key].size();
  }
  return text("tensor ", index);
}

comm::Placement ClusterRun::place(uint16_t, const comm::FrameHeader& header) {
  if (incoming_step_ != header.step) {
    MutexLock lock(mutex_);
    if (tensor_list_.is_null())
      return comm::Placement::refused("sent tensors before it told which it has");
    incoming_ = std::make_shared<TensorStore>(tensor_list_);
    incoming_step_ = header.step;
  }
  return incoming_->place(header);
}

void ClusterRun::failed(const comm::Loss& loss) {
  drifted_ = loss.kind == comm::Loss::Kind::kDrift;
  inbox_.post([this, loss] { end_after(loss); });
}

void ClusterRun::slow(comm::NodeId, const std::string& what) {
  inbox_.post([this, what] { console_.warning(what); });
}

void ClusterRun::ended(const comm::Outcome& outcome) {
  inbox_.post([this, outcome] { outcome_ = outcome; });
}

// ---- the main thread

void ClusterRun::end_after(const comm::Loss& loss) {
  loss_ = loss;
  // Who is silent may be stopped, and would never end by itself.
  if (children_ && end_of(loss) == MemberEnd::kPeerLost) children_->kill(loss.who);
  // But for a loss that is about what is in it.
  if (loss.kind != comm::Loss::Kind::kDrift) checkpoints_.trust_survivors();
}

void ClusterRun::begin_metrics(const std::vector<comm::Fact>& facts) {
  facts_ = facts;
  if (resumed_ != nullptr)
    warn_of_other_data(resumed_->state(), fact(facts, "the training set"), console_);
  const std::string samples = fact(facts, "the number of training samples");
  const int64_t epoch = samples.empty() ? 1 : std::stoll(samples);
  schedule_.emplace(job_.config.optimizer.schedule, job_.config.optimizer.learning_rate,
                    published_.steps,
                    static_cast<double>(epoch) / static_cast<double>(plan_.global_batch),
                    job_.file + ": /optimizer/schedule");
  report_.emplace(plan_, directory_.path(),
                  Metrics::Options{.steps = published_.steps,
                                   .steps_done = published_.first_step,
                                   .log_every = job_.config.train.log_every,
                                   .global_batch = plan_.global_batch,
                                   .epoch_samples = epoch},
                  console_);
}

void ClusterRun::take_note(comm::NodeId node, const comm::Note& note) {
  guarded(node, [&] {
    if (note.about == "tensors" && node.role == comm::Role::kWorker)
      send_values(node.rank, note.content);
    else if (note.about == "step")
      take_step(node.rank, note);
    else if (note.about == "test")
      report_->take_test(node.rank, note);
    else if (note.about == "traffic")
      report_->take_traffic(node, note.content);
    else if (note.about == "trace")
      trace_.add(node, note.content);
  });
}

/// What cannot be made sense of is the sender's error, and ends the job.
template <class Action>
void ClusterRun::guarded(comm::NodeId node, Action action) {
  try {
    action();
  } catch (const nlohmann::json::exception& error) {
    report_error(text(comm::name_of(node), " sent a note that cannot be read: ", error.what()));
  } catch (const ConfigError& error) {
    report_error(error.what());
  }
}

void ClusterRun::send_values(uint16_t worker, const Json& content) {
  if (!values_made_) make_values(content);
  Json places = Json::array();
  for (const PlacedTensor& tensor : values_) places.push_back(tensor.place);
  transport_->post([this, worker, places, values = values_] {
    coordinator_->note(
        worker,
        {.about = "values", .step = published_.first_step, .content = {{"tensors", places}}});
    for (const auto& [place, tensor] : values)
      send_tensor(place, 0, 1, tensor, [&](const comm::FrameHeader& header, comm::Payload payload) {
        coordinator_->send(worker, header, std::move(payload));
      });
  });
}

/// From the first worker's word of what it has.
void ClusterRun::make_values(const Json& content) {
  values_made_ = true;
  {
    MutexLock lock(mutex_);
    tensor_list_ = content.at("list");
  }
  choices_ = read_choices(content.at("choices"), {"a worker's choices", ""}, *job_.network);
  threads_ = content.at("threads").get<int64_t>();
  values_ = first_values(content.at("list"), resumed_.get(), options_.weights, console_);
  if (resumed_ != nullptr)
    console_.info(text("going on after step ", published_.first_step, " of ", published_.steps,
                       " from ", checkpoints_.last().string()));
  resumed_.reset();
  directory_.write("plan.json", plan_json(plan_, choices_));
}

void ClusterRun::take_step(uint16_t worker, const comm::Note& note) {
  if (report_->take_step(worker, note, published_.last_step) && options_.trace) ask_for_time();
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
    for (int i = 0; i < kClockQuestions; ++i) coordinator_->note_members(clock_question());
  });
}

Json ClusterRun::finish() {
  console_.finish();
  if (!outcome_->finished) fail();
  if (halted_)
    console_.info(text("stopped after step ", checkpoints_.saved_step(), " of ", published_.steps));
  const Json traffic = report_->traffic(checkpoints_.saved_step() - published_.first_step);
  Json all = summary(traffic);
  write_summary(all, traffic);
  return all;
}

/// Ends with the loss; after the first step tables and trace are written as far as they are known.
void ClusterRun::fail() {
  if (halted_ && !begun_)
    throw RunError("stopped before the first step" + checkpoints_.last_text());
  const std::string why = failure();
  if (begun_) {
    const int64_t steps = std::max(checkpoints_.saved_step(), report_->last_step());
    const Json traffic = report_->traffic(steps - published_.first_step);
    Json known = summary(traffic);
    known["failure"] = why;
    write_summary(known, traffic);
    cluster_.failed(known);
  }
  const std::string what = why + checkpoints_.last_text();
  if (end_of(outcome_->loss) == MemberEnd::kPeerLost) throw PeerLost(what);
  throw RunError(what);
}

/// What the coordinator decided on; and of a child, what only its parent knows.
std::string ClusterRun::failure() const {
  const comm::Loss& loss = outcome_->loss;
  const std::string end =
      children_ && loss.kind == comm::Loss::Kind::kPeer ? children_->end_of(loss.who) : "";
  return loss.message() + (end.empty() || end == loss.why ? "" : "; " + end);
}

void ClusterRun::write_summary(const Json& summary, const Json& traffic) const {
  if (options_.trace) write_trace(trace_, directory_.path(), console_);
  directory_.write("traffic.json", traffic);
  directory_.write("summary.json", summary);
}

Json ClusterRun::summary(const Json& traffic) const {
  const int64_t steps = checkpoints_.saved_step();
  Json summary = report_->summary(traffic);
  summary.update(
      {{"name", job_.config.name},
       {"steps", steps},
       {"wall_seconds",
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count()},
       {"weights_sha256", checkpoints_.weights_digest()},
       {"workers", plan_.workers},
       {"servers", plan_.servers},
       {"device", job_.config.device.type},
       {"threads", threads_},
       {"finished", steps >= published_.steps},
       {"checkpoint", checkpoints_.last().string()},
       {"output", directory_.path().string()}});
  return summary;
}

}  // namespace

Json train_on_cluster(const Job& job, const RunOptions& options, const ClusterOptions& cluster,
                      Console& console) {
  return ClusterRun(job, options, cluster, console).go();
}

}  // namespace poseidon::trainer
