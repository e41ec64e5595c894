#include "trainer/cluster_run.h"

#include <array>
#include <atomic>
#include <cmath>
#include <map>
#include <thread>

#include "comm/coordinator.h"
#include "comm/traffic.h"
#include "core/error.h"
#include "core/secret.h"
#include "trainer/checkpoint.h"
#include "trainer/engine.h"
#include "trainer/inbox.h"
#include "trainer/job_message.h"
#include "trainer/launch.h"
#include "trainer/metrics.h"
#include "trainer/resume.h"
#include "trainer/run_directory.h"
#include "trainer/run_tensors.h"
#include "trainer/step_message.h"
#include "trainer/sync_plan.h"
#include "trainer/tensor_stream.h"
#include "trainer/trace_file.h"

namespace poseidon::trainer {

namespace fs = std::filesystem;

namespace {

constexpr auto kTick = std::chrono::milliseconds(100);
constexpr auto kPatience = std::chrono::seconds(5);
constexpr auto kBetweenClockQuestions = std::chrono::milliseconds(200);
constexpr int kClockQuestions = 4;
constexpr double kLeastJoinSeconds = 5;
constexpr size_t kSecretBytes = 32;

/// As text: who reads a secret from a file leaves out white space at its end.
comm::Secret random_secret() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<std::byte, kSecretBytes> random;
  fill_with_random_bytes(random);
  comm::Secret secret;
  for (const std::byte byte : random)
    for (const int digit : {std::to_integer<int>(byte) >> 4, std::to_integer<int>(byte) & 15})
      secret.push_back(static_cast<std::byte>(kDigits[static_cast<size_t>(digit)]));
  return secret;
}

/// Sums of one step or test over all workers, as they come in.
template <class Part>
class Gathered {
 public:
  explicit Gathered(size_t workers) : parts_(workers) {}
  /// Whether all are there now.
  bool add(uint16_t worker, Part part) {
    parts_[worker] = std::move(part);
    return std::all_of(parts_.begin(), parts_.end(),
                       [](const std::optional<Part>& each) { return each.has_value(); });
  }
  const std::vector<std::optional<Part>>& parts() const { return parts_; }

 private:
  std::vector<std::optional<Part>> parts_;
};

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
  Json plan(const std::vector<comm::Fact>& facts) override;
  void started() override;
  void noted(comm::NodeId node, const comm::Note& note) override;
  void agreed(int64_t step) override;
  std::string tensor_name(size_t index) override;
  comm::Placement place(uint16_t worker, const comm::FrameHeader& header) override;
  void received(uint16_t, const comm::FrameHeader&) override {}
  void failed(const comm::Loss& loss) override;
  bool wants_checkpoint(int64_t step) override { return !drifted_ && step > saved_step_; }
  void saved(uint16_t, int64_t) override {}
  void slow(comm::NodeId node, const std::string& what) override;
  void take_clock(comm::NodeId node, const comm::Note& note);
  void ended(const comm::Outcome& outcome) override;

  // The main thread.
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
  void make_values(const Json& list);
  void take_step(uint16_t worker, const comm::Note& note);
  void take_test(uint16_t worker, const comm::Note& note);
  void take_traffic(const Json& content);
  void take_checkpoint(const comm::Note& note, std::shared_ptr<TensorStore> tensors);
  void write_agreed_checkpoints();
  void write_files_of_plan();
  Json finish();
  Json summary(const std::string& digest) const;
  Json layers_summary(const Json& traffic) const;
  std::string last_checkpoint_text() const;
  size_t workers() const { return static_cast<size_t>(plan_.workers); }

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const Job& job_;
  const RunOptions& options_;
  const ClusterOptions& cluster_;
  Console& console_;
  std::unique_ptr<Checkpoint> resumed_;
  comm::Plan plan_;
  RunDirectory directory_;
  Json job_message_;
  PublishedPlan published_;
  std::vector<comm::Fact> facts_;
  std::optional<Schedule> schedule_;
  std::optional<Metrics> metrics_;

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
  std::atomic<int64_t> saved_step_ = 0;

  net::Choices choices_;
  int64_t threads_ = 0;
  bool values_made_ = false;
  std::vector<std::pair<uint32_t, std::shared_ptr<std::vector<float>>>> values_;
  std::map<int64_t, Gathered<WorkerStep>> steps_;
  std::optional<TimeTable> times_;
  TraceCollection trace_;  ///< with --trace
  std::chrono::steady_clock::time_point asked_for_time_{};
  std::map<int64_t, Gathered<TestSums>> tests_;
  struct IncomingCheckpoint {
    std::shared_ptr<TensorStore> store;
    int64_t in_flight = 0;
  };
  std::map<int64_t, IncomingCheckpoint> checkpoints_;  ///< in, not written yet, by step
  int64_t agreed_step_ = -1;
  fs::path last_checkpoint_;
  std::string weights_digest_;
  StepReport last_report_;
  std::optional<TestResult> last_test_;
  std::vector<comm::NodeBytes> bytes_of_layer_;  ///< over all nodes
};

ClusterRun::ClusterRun(const Job& job, const RunOptions& options, const ClusterOptions& cluster,
                       Console& console)
    : job_(job),
      options_(options),
      cluster_(cluster),
      console_(console),
      resumed_(options.resume.empty() ? nullptr : open_checkpoint(options.resume, console)),
      plan_(plan_of(job, resumed_.get(), options.replan)),
      directory_(open_run_directory(options.output, options.resume, job.config.name)),
      job_message_(write_job_message(job)) {
  if (plan_.overlap == comm::Overlap::kPriority && plan_.staleness == 0 &&
      job.config.optimizer.clip_norm > 0)
    plan_.overlap = comm::Overlap::kBarrier;
  published_.plan = comm::to_json(plan_);
  published_.choices =
      choices_json(resumed_ != nullptr && !options.replan
                       ? read_choices(resumed_->state().choices,
                                      {options.resume.string(), "/choices"}, *job.network)
                       : choices_of(job));
  published_.trace = options.trace;
  if (!cluster.external) published_.run_directory = fs::absolute(directory_.path()).string();
  if (resumed_ != nullptr) {
    refuse_other_batch(resumed_->state(), job, options.resume);
    warn_of_changes(resumed_->state(), job, console);
    published_.first_step = resumed_->state().step;
    published_.in_flight = resumed_->state().in_flight;
    last_checkpoint_ = resumed_->weights_file();
    saved_step_ = published_.first_step;
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
      .join_timeout = std::chrono::seconds(static_cast<int64_t>(
          std::ceil(std::max(kLeastJoinSeconds, job_.config.cluster.timeout_s))))});
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
      comm::Coordinator::Options{.workers = static_cast<uint16_t>(plan_.workers),
                                 .servers = static_cast<uint16_t>(plan_.servers),
                                 .facts = {{"build", build_identity()}},
                                 .timeout = seconds(job_.config.cluster.timeout_s),
                                 .stall_timeout = seconds(job_.config.cluster.stall_timeout_s),
                                 .gather_timeout = cluster_.external
                                                       ? comm::Time{0}
                                                       : comm::Time(std::chrono::seconds(60)),
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
    transport_->post([this, child] {
      coordinator_->report_absent(
          child.node, child.by_signal ? comm::Loss::Kind::kPeer : comm::Loss::Kind::kError,
          child.how);
    });
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

Json ClusterRun::plan(const std::vector<comm::Fact>& facts) {
  try {
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
  std::shared_ptr<TensorStore> tensors;
  if (note.about == "checkpoint") {
    tensors = std::move(incoming_);
    incoming_step_ = UINT64_MAX;
  }
  inbox_.post([this, node, note, tensors] {
    if (note.about == "checkpoint")
      guarded(node, [&] { take_checkpoint(note, tensors); });
    else
      take_note(node, note);
  });
}

void ClusterRun::take_clock(comm::NodeId node, const comm::Note& note) {
  inbox_.post([this, node, note, now = TraceRecorder::now()] {
    guarded(node, [&] { trace_.answered(node, note, now); });
  });
}

void ClusterRun::agreed(int64_t step) {
  inbox_.post([this, step] {
    agreed_step_ = std::max(agreed_step_, step);
    write_agreed_checkpoints();
  });
}

std::string ClusterRun::tensor_name(size_t index) {
  MutexLock lock(mutex_);
  for (const char* key : {"weights", "optimizer", "sums"}) {
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
  write_agreed_checkpoints();
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
  times_.emplace(workers(), plan_.layers.size());
  metrics_.emplace(directory_.path(),
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
      take_test(node.rank, note);
    else if (note.about == "traffic")
      take_traffic(note.content);
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

/// The values that a worker does not make itself from the seed: those of a checkpoint, or of a
/// weights file.
void ClusterRun::send_values(uint16_t worker, const Json& content) {
  if (!values_made_) {
    values_made_ = true;
    {
      MutexLock lock(mutex_);
      tensor_list_ = content.at("list");
    }
    choices_ = read_choices(content.at("choices"), {"a worker's choices", ""}, *job_.network);
    threads_ = content.at("threads").get<int64_t>();
    make_values(content.at("list"));
    write_files_of_plan();
  }
  Json places = Json::array();
  for (const auto& [place, values] : values_) places.push_back(place);
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

void ClusterRun::make_values(const Json& list) {
  if (resumed_ == nullptr && options_.weights.empty()) return;
  TensorStore store(list);
  RunTensors tensors = store.tensors();
  std::vector<bool> known(store.entries().size());
  const auto mark = [&](std::vector<NamedTensor>& all, size_t first) {
    for (size_t i = 0; i < all.size(); ++i)
      all[i].set = [&known, place = first + i, set = all[i].set](std::span<const float> values) {
        known[place] = true;
        set(values);
      };
  };
  mark(tensors.weights, 0);
  size_t first = tensors.weights.size();
  mark(tensors.optimizer, first);
  first += tensors.optimizer.size();
  for (std::vector<NamedTensor>& of_step : tensors.sums) {
    mark(of_step, first);
    first += of_step.size();
  }
  if (resumed_ != nullptr)
    resumed_->restore(tensors);
  else
    report_match(options_.weights, load_weights(options_.weights, tensors), console_);
  for (uint32_t place = 0; place < known.size(); ++place)
    if (known[place])
      values_.emplace_back(
          place, std::make_shared<std::vector<float>>(std::move(store.entries()[place].values)));
  if (resumed_ != nullptr)
    console_.info(text("going on after step ", published_.first_step, " of ", published_.steps,
                       " from ", last_checkpoint_.string()));
  resumed_.reset();
}

void ClusterRun::write_files_of_plan() {
  directory_.write("plan.json", plan_json(plan_, choices_));
}

void ClusterRun::take_step(uint16_t worker, const comm::Note& note) {
  WorkerStep part = read_step(note, plan_);
  times_->add(worker, part.report);
  auto& gathered = steps_.try_emplace(note.step, workers()).first->second;
  if (!gathered.add(worker, std::move(part))) return;
  std::vector<WorkerStep> parts;
  for (const auto& each : gathered.parts()) parts.push_back(*each);
  steps_.erase(note.step);
  last_report_ = join_steps(parts, plan_);
  metrics_->trained(last_report_, note.step == published_.last_step);
  if (options_.trace) ask_for_time();
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

void ClusterRun::take_test(uint16_t worker, const comm::Note& note) {
  const TestSums part{.samples = note.content.at("samples").get<int64_t>(),
                      .loss = note.content.at("loss").get<double>(),
                      .top1 = note.content.at("top1").get<int64_t>(),
                      .top5 = note.content.at("top5").get<int64_t>()};
  auto& gathered = tests_.try_emplace(note.step, workers()).first->second;
  if (!gathered.add(worker, part)) return;
  TestSums sums;
  for (const auto& each : gathered.parts()) sums += *each;
  tests_.erase(note.step);
  last_test_ = sums.mean(0);
  metrics_->tested(note.step, *last_test_);
}

void ClusterRun::take_traffic(const Json& content) {
  const Json& layers = content.at("layers");
  bytes_of_layer_.resize(plan_.layers.size());
  for (size_t i = 0; i < std::min(bytes_of_layer_.size(), layers.size()); ++i) {
    bytes_of_layer_[i].sent += layers[i].at("sent").get<int64_t>();
    bytes_of_layer_[i].received += layers[i].at("received").get<int64_t>();
  }
}

void ClusterRun::take_checkpoint(const comm::Note& note, std::shared_ptr<TensorStore> tensors) {
  if (tensors == nullptr) return;
  int64_t in_flight = 0;
  read_fields(note.content, {"a checkpoint", ""}, [&](Fields& fields) {
    const auto most = static_cast<double>(tensors->tensors().sums.size());
    fields.integer("sums_in_flight", in_flight, between(0, most), "", Presence::kRequired);
  });
  checkpoints_[note.step] = {std::move(tensors), in_flight};
  write_agreed_checkpoints();
}

/// A checkpoint is written when all workers agree on what is in it; after a loss it is the
/// survivor's word, but for a loss that is about what is in it.
void ClusterRun::write_agreed_checkpoints() {
  while (!checkpoints_.empty()) {
    const auto& [step, incoming] = *checkpoints_.begin();
    const bool agreed = step <= agreed_step_;
    if (!agreed && (!loss_ || loss_->kind == comm::Loss::Kind::kDrift)) return;
    RunState state =
        run_state(job_, published_, *schedule_, step, choices_, fact(facts_, "the training set"));
    state.in_flight = incoming.in_flight;
    const RunTensors tensors = incoming.store->tensors();
    last_checkpoint_ = write_checkpoint(directory_.checkpoints(), state, tensors);
    weights_digest_ = weights_sha256(tensors);
    saved_step_ = step;
    checkpoints_.erase(checkpoints_.begin());
  }
}

Json ClusterRun::finish() {
  console_.finish();
  if (!outcome_->finished) {
    if (halted_ && !begun_)
      throw RunError("stopped before the first step" + last_checkpoint_text());
    const std::string what = outcome_->loss.message() + last_checkpoint_text();
    if (end_of(outcome_->loss) == MemberEnd::kPeerLost) throw PeerLost(what);
    throw RunError(what);
  }
  if (halted_)
    console_.info(text("stopped after step ", saved_step_.load(), " of ", published_.steps));
  if (options_.trace) write_trace(trace_, directory_.path(), console_);
  Json result = summary(weights_digest_);
  directory_.write("summary.json", result);
  return result;
}

std::string ClusterRun::last_checkpoint_text() const {
  return last_checkpoint_.empty() ? "; there is no checkpoint yet"
                                  : "; the last checkpoint is " + last_checkpoint_.string();
}

Json ClusterRun::summary(const std::string& digest) const {
  const int64_t nodes = comm::layout_of(plan_).nodes();
  const Json traffic = traffic_json(plan_, saved_step_ - published_.first_step, bytes_of_layer_);
  directory_.write("traffic.json", traffic);
  const auto per_node = [&](const char* key) {
    return traffic[key].get<double>() / static_cast<double>(nodes);
  };
  const bool trained = last_report_.step > 0;
  return {{"name", job_.config.name},
          {"steps", saved_step_.load()},
          {"train_loss", trained ? Json(last_report_.loss) : Json()},
          {"test_top1", last_test_ ? Json(last_test_->top1) : Json()},
          {"test_top5", last_test_ ? Json(last_test_->top5) : Json()},
          {"test_loss", last_test_ ? Json(last_test_->loss) : Json()},
          {"samples_per_second", metrics_->samples_per_second()},
          {"bytes_sent", per_node("bytes_sent")},
          {"bytes_received", per_node("bytes_received")},
          {"wall_seconds",
           std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count()},
          {"weights_sha256", digest},
          {"workers", plan_.workers},
          {"servers", plan_.servers},
          {"device", job_.config.device.type},
          {"threads", threads_},
          {"finished", saved_step_ >= published_.steps},
          {"checkpoint", last_checkpoint_.string()},
          {"output", directory_.path().string()},
          {"time", times_->workers(plan_)},
          {"layers", layers_summary(traffic)}};
}

/// What each layer moved over all nodes and was waited for, beside what was planned.
Json ClusterRun::layers_summary(const Json& traffic) const {
  Json layers = Json::array();
  for (size_t i = 0; i < plan_.layers.size(); ++i) {
    const Json& layer = traffic["layers"][i];
    layers.push_back(
        {{"name", layer["name"]},
         {"scheme", layer["scheme"]},
         {"bytes", layer["bytes_sent"].get<int64_t>() + layer["bytes_received"].get<int64_t>()},
         {"planned_bytes", layer["planned_bytes"]},
         {"sum_wait_s", times_->layer_wait_s(i)}});
  }
  return layers;
}

}  // namespace

Json train_on_cluster(const Job& job, const RunOptions& options, const ClusterOptions& cluster,
                      Console& console) {
  return ClusterRun(job, options, cluster, console).go();
}

}  // namespace poseidon::trainer
