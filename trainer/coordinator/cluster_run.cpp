#include "trainer/coordinator/cluster_run.h"

#include <cmath>
#include <map>

#include "core/counted.h"
#include "core/failure.h"
#include "core/report_backoff.h"
#include "trainer/coordinator/coordinator_io.h"
#include "trainer/coordinator/member_ids.h"
#include "trainer/coordinator/run_ending.h"
#include "trainer/job/job_numbers.h"
#include "trainer/job/plausibility.h"
#include "trainer/measure/memory_estimate.h"
#include "trainer/messages/facts.h"
#include "trainer/messages/job_message.h"
#include "trainer/messages/member_end.h"
#include "trainer/report/run_directory.h"
#include "trainer/state/resume.h"
#include "trainer/state/run_tensors.h"

namespace poseidon::trainer {

namespace {

constexpr auto kTick = std::chrono::milliseconds(100);
constexpr auto kGracePeriod = std::chrono::seconds(5);
/// Grace period for members to end if no step has begun: they have no work to complete.
constexpr auto kGracePeriodBefore = std::chrono::milliseconds(200);
constexpr double kMinJoinSeconds = 5;
/// Time limit for all members to join, in units of join_timeout(). Each child stops trying to
/// connect to this process after one join_timeout().
constexpr int kJoinDeadlines = 3;

comm::Time duration_of(double seconds) {
  return std::chrono::duration_cast<comm::Time>(std::chrono::duration<double>(seconds));
}

/// Time limit within which a started member must connect to this process.
std::chrono::seconds join_timeout(const Job& job) {
  return std::chrono::seconds(
      static_cast<int64_t>(std::ceil(std::max(kMinJoinSeconds, job.config.cluster.timeout_s))));
}

/// All members of a plan. Servers come first, because they accept connections sooner after their
/// start.
std::vector<comm::NodeId> members_of(const comm::Plan& plan) {
  std::vector<comm::NodeId> all;
  for (const auto& [role, count] : {std::pair{comm::Role::kServer, plan.servers()},
                                    std::pair{comm::Role::kWorker, plan.workers()}})
    for (int64_t rank = 0; rank < count; ++rank) all.push_back({role, static_cast<uint16_t>(rank)});
  return all;
}

/// Whether the run resumes from the latest step that any process has, rather than from a specific
/// checkpoint.
bool goes_on(const RunOptions& options, const ClusterOptions& cluster) {
  return cluster.external && std::filesystem::is_directory(options.resume);
}

/// Opens the checkpoint from which the run continues; null if the run starts from the beginning.
std::shared_ptr<const Checkpoint> first_checkpoint(const Job& job, const RunOptions& options,
                                                   bool goes_on, Log& log) {
  if (goes_on && !has_checkpoint(options.resume)) {
    log.info(
        text(options.resume.string(),
             ": has no checkpoint yet: the run restarts from its initial values, unless a worker "
             "has an in-memory checkpoint of it"));
    return nullptr;
  }
  std::shared_ptr<const Checkpoint> checkpoint = resumed_checkpoint(job, options.resume, log);
  if (checkpoint != nullptr) warn_of_changes(checkpoint->state(), job, log);
  return checkpoint;
}

RunPlan first_plan(const Job& job, const RunOptions& options, const Checkpoint* resumed) {
  RunPlan plan(job, options);
  plan.begin_from(resumed);
  return plan;
}

/// A run of a job on several workers, in the main thread of the coordinator. go() runs the tasks
/// that the I/O thread posts, and watches the child processes, until the job has ended.
class ClusterRun final : public JobWatcher {
 public:
  ClusterRun(const Job& job, const RunOptions& options, const ClusterOptions& cluster,
             Console& console);
  Json go();

 private:
  void node_failed(const comm::NodeFailure& node_failure) override;
  void reconfiguring(const comm::NodeFailure& node_failure,
                     ViewRecords::Clock::time_point when) override;
  void reconfigured(const comm::Survivors& left, const std::vector<comm::Joiner>& joined) override;
  void given_up(comm::NodeId node) override { launcher_->kill(ids_.of(node)); }
  void ended(const comm::Outcome& outcome) override { ending_.end(outcome); }

  void inspect_data_and_memory();
  void introduce(const KnownData& data);
  void begin();
  Json job_message() const;
  comm::Coordinator::Options coordinator_options() const;
  void loop();
  template <class Action>
  void attempt(Action action);
  void take_turn();
  void report_missing();
  Json finish();
  [[noreturn]] void fail();
  std::string failure_text(const comm::NodeFailure& node_failure);
  double wall_seconds() const;

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const Job& job_;
  const RunOptions& options_;
  const ClusterOptions& cluster_;
  Console& console_;
  RunDirectory directory_;
  Inbox inbox_;
  RunEnding ending_;
  MemberIds ids_;
  bool halted_ = false;
  ReportBackoff waiting_{std::chrono::seconds(30), std::chrono::minutes(10)};
  const std::unique_ptr<Launcher> launcher_;
  ClusterRecords records_;
  CoordinatorIo io_;  ///< last, so destroyed first: its thread uses the other members
};

ClusterRun::ClusterRun(const Job& job, const RunOptions& options, const ClusterOptions& cluster,
                       Console& console)
    : job_(job),
      options_(options),
      cluster_(cluster),
      console_(console),
      directory_(open_run_directory(options.output, options.resume, job.config.name)),
      launcher_(make_launcher(cluster, {.run = std::filesystem::absolute(directory_.path()),
                                        .threads = job.config.device.threads,
                                        .join_timeout = join_timeout(job)})),
      records_(job, options, directory_, io_, console,
               first_checkpoint(job, options, goes_on(options, cluster), console)),
      io_(launcher_->join_options(), first_plan(job, options, records_.resumed()), console,
          [this](std::exception_ptr failure) {
            inbox_.post(
                [this, failure] { ending_.transport_failed(failure, records_.step_under_way()); });
          }) {}

Json ClusterRun::go() {
  if (launcher_->join_options().on_this_host)
    inspect_data_and_memory();
  else
    introduce({});
  if (!options_.weights.empty()) check_weights_file(options_.weights);
  directory_.make();
  console_.open_log(directory_.path() / kConsoleFile, session_header(options_.command));
  directory_.write_config(job_);
  begin();
  loop();
  io_.stop();
  launcher_->wait(records_.has_started() ? kGracePeriod : kGracePeriodBefore);
  directory_.tidy();
  return finish();
}

/// The members run on this host, so this process can check the data and estimate the memory first.
/// One error or warning of this process is clearer than those of several children.
void ClusterRun::inspect_data_and_memory() {
  const comm::Plan& plan = io_.plan().plan();
  const KnownData data = inspect_data(job_, console_);
  MemoryEstimate estimate =
      estimate_memory(job_, plan, net_options(job_, io_.plan().published(), plan, 2));
  estimate.data = data.bytes;
  warn_of_memory(job_, estimate, plan.workers(), console_);
  introduce(data);
}

/// Logs the size of the job, as far as `data` is known on this host, and warns of doubtful
/// settings.
void ClusterRun::introduce(const KnownData& data) {
  console_.info(job_in_numbers(job_, data));
  RunFacts facts{.job = job_, .data = data, .has_weights = !options_.weights.empty()};
  if (records_.resumed() != nullptr) facts.resumed = resumed_at(records_.resumed()->state());
  warn_of_doubtful_settings(facts, console_);
}

/// Starts the members before the I/O thread, as Launcher::start() requires.
void ClusterRun::begin() {
  const JoinOptions& join_options = launcher_->join_options();
  const comm::Plan& plan = io_.plan().plan();
  if (join_options.members_are_daemons)
    console_.info(text("waiting for ", counted(plan.workers(), "worker"), " and ",
                       counted(plan.servers(), "server"), " at ", io_.address()));
  waiting_.begin(std::chrono::steady_clock::now().time_since_epoch());
  launcher_->start(members_of(plan), io_.address());
  io_.begin({.job = job_,
             .options = options_,
             .join_options = join_options,
             .job_message = job_message(),
             .run = directory_.id(),
             .goes_on = goes_on(options_, cluster_),
             .inbox = inbox_,
             .records = records_,
             .watcher = *this},
            coordinator_options());
}

Json ClusterRun::job_message() const {
  JobMessage message = trainer::job_message(job_);
  message.times_layers = io_.plan().measures();
  message.run = directory_.id();
  message.goes_on = goes_on(options_, cluster_);
  return write_job_message(std::move(message));
}

comm::Coordinator::Options ClusterRun::coordinator_options() const {
  const bool members_are_daemons = launcher_->join_options().members_are_daemons;
  const comm::Plan& plan = io_.plan().plan();
  const ClusterConfig& cluster = job_.config.cluster;
  const bool grows = members_are_daemons && (cluster.max_workers > 0 || cluster.gather_s > 0);
  const auto most = [&](int64_t count) { return static_cast<uint16_t>(grows ? count : 0); };
  return {.workers = static_cast<uint16_t>(plan.workers()),
          .servers = static_cast<uint16_t>(plan.servers()),
          .facts = {{"build", build_identity()}},
          .timeout = duration_of(cluster.timeout_s),
          .stall_timeout = duration_of(cluster.stall_timeout_s),
          .gather_timeout =
              members_are_daemons ? comm::Time{0} : comm::Time{kJoinDeadlines * join_timeout(job_)},
          .gather = members_are_daemons ? duration_of(cluster.gather_s) : comm::Time{0},
          .replaces_members = members_are_daemons,
          .recovers = cluster.recover == Recovery::kContinue,
          .min_workers = static_cast<uint16_t>(cluster.min_workers),
          .max_workers = most(cluster.worker_limit()),
          .max_servers = most(cluster.server_limit())};
}

void ClusterRun::loop() {
  while (!ending_.is_over()) attempt([this] { take_turn(); });
  // Run the tasks that the I/O thread posted before the end.
  bool more = true;
  while (more) attempt([&] { more = inbox_.run_one(Inbox::Clock::now()); });
}

/// Runs `action`. The first exception ends the job, and the members receive its message. Later
/// exceptions, and exceptions after the job has failed, are only logged.
template <class Action>
void ClusterRun::attempt(Action action) {
  try {
    action();
  } catch (...) {
    const std::string why = message_of(std::current_exception());
    if (ending_.fail(std::current_exception()))
      io_.report_error(why);
    else
      console_.warning(why);
  }
}

void ClusterRun::take_turn() {
  inbox_.run_one(Inbox::Clock::now() + kTick);
  // The coordinator detects the end of a connected member by itself. A member that ended before it
  // connected must be reported to the coordinator.
  if (!ending_.job_has_failed())
    for (const Launcher::Ended& member : launcher_->ended())
      io_.post([member](CoordinatorSide& io) {
        io.coordinator->report_absent(member.node, member.how);
      });
  report_missing();
  if (halted_ || options_.stop == nullptr || !*options_.stop) return;
  halted_ = true;
  io_.post([](CoordinatorSide& io) { io.coordinator->halt(); });
}

/// While the coordinator waits for daemons to join, logs the missing members at growing intervals.
void ClusterRun::report_missing() {
  const auto now = std::chrono::steady_clock::now();
  if (!launcher_->join_options().members_are_daemons || records_.has_started() ||
      !waiting_.is_due(now.time_since_epoch()))
    return;
  const auto minutes = std::chrono::duration<double, std::ratio<60>>(now - start_).count();
  io_.post([this, minutes](CoordinatorSide& io) {
    if (io.coordinator->state() != comm::Coordinator::State::kGathering) return;
    inbox_.post([this, minutes, missing = io.coordinator->missing()] {
      console_.info(text("still waiting for ", missing, " at ", io_.address(), " after ",
                         std::round(minutes * 10) / 10, " min"));
    });
  });
}

void ClusterRun::node_failed(const comm::NodeFailure& node_failure) {
  ending_.record_failure(node_failure);
  // The failed member may be suspended (SIGSTOP), and then would never end by itself.
  if (end_of(node_failure) == MemberEnd::kPeerFailed) launcher_->kill(ids_.of(node_failure.who));
  records_.node_failed(node_failure);
}

void ClusterRun::reconfiguring(const comm::NodeFailure& node_failure,
                               ViewRecords::Clock::time_point when) {
  if (node_failure.kind == comm::NodeFailure::Kind::kJoined) return records_.views().admit(when);
  if (node_failure.kind != comm::NodeFailure::Kind::kLeft)
    launcher_->kill(ids_.of(node_failure.who));
  const std::string why = failure_text(node_failure);
  records_.views().record_failure(node_failure, why, when);
  console_.warning(text(why, "; the job continues without ",
                        node_failure.kind == comm::NodeFailure::Kind::kUnreached
                            ? comm::name_of(node_failure.who)
                            : "it"));
}

/// Logs each change of a rank, because log files keep the initial rank. Also logs each joiner.
void ClusterRun::reconfigured(const comm::Survivors& left,
                              const std::vector<comm::Joiner>& joined) {
  ids_.keep(left, joined);
  const auto tell = [this](comm::Role role, const std::vector<uint16_t>& before) {
    for (uint16_t rank = 0; rank < before.size(); ++rank) {
      const comm::NodeId now{role, rank};
      if (before[rank] == rank) continue;
      console_.info(text("the process started as ", comm::name_of(ids_.of(now)), " is now ",
                         comm::name_of(now)));
    }
  };
  tell(comm::Role::kWorker, left.workers);
  tell(comm::Role::kServer, left.servers);
  std::map<comm::Role, size_t> next{{comm::Role::kWorker, left.workers.size()},
                                    {comm::Role::kServer, left.servers.size()}};
  for (const comm::Joiner& joiner : joined) {
    const comm::NodeId node{joiner.node.role, static_cast<uint16_t>(next[joiner.node.role]++)};
    records_.views().join(node, joiner.address);
    console_.info(text(comm::name_of(node), " (", joiner.address, ") has joined"));
  }
}

Json ClusterRun::finish() {
  console_.finish();
  ending_.apply_own_failure(records_.step_under_way());
  if (!ending_.outcome().finished) fail();
  ClusterRecords::Results results = records_.results(wall_seconds(), "");
  records_.write(results);
  const int64_t saved = records_.checkpoints().saved_step(), steps = records_.published().steps;
  if (halted_ || saved < steps)
    console_.info(stopped_text(saved, steps, resume_command(directory_.path(), options_, saved)));
  return std::move(results.summary);
}

/// Throws the failure of the run. If a step was complete, or the run was resumed, first writes
/// the known part of the summary, the traffic and the trace.
void ClusterRun::fail() {
  std::string last = records_.checkpoints().last_text();
  if (!records_.has_started()) {
    if (halted_) throw RunError("stopped before the first step" + last);
    if (ending_.failure()) std::rethrow_exception(ending_.failure());
  }
  const bool has_a_step = records_.has_started() && directory_.is_kept();
  if (records_.has_started()) directory_.keep();  // with the logs of all members
  const std::string why = failure_text(ending_.outcome().failure);
  if (has_a_step)
    attempt([&] {  // another process may have taken over the run
      const ClusterRecords::Results known = records_.results(wall_seconds(), why);
      records_.write(known);
      cluster_.failed(known.summary);
    });
  if (const int64_t saved = records_.checkpoints().saved_step(); saved > 0)
    last += "; to resume: " + resume_command(directory_.path(), options_, saved);
  if (end_of(ending_.outcome().failure) == MemberEnd::kPeerFailed) throw PeerFailed(why + last);
  throw RunError(why + last);
}

/// Returns the coordinator's message about the failure. If the failed member is a child that ended
/// by itself, adds how it ended, and keeps the run directory with the child's log.
std::string ClusterRun::failure_text(const comm::NodeFailure& node_failure) {
  const bool may_have_ended = node_failure.kind == comm::NodeFailure::Kind::kPeer;
  const std::string end = may_have_ended ? launcher_->end_of(ids_.of(node_failure.who)) : "";
  if (!end.empty()) directory_.keep();
  return node_failure.message() + (end.empty() || end == node_failure.why ? "" : "; " + end);
}

double ClusterRun::wall_seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

}  // namespace

Json train_on_cluster(const Job& job, const RunOptions& options, const ClusterOptions& cluster,
                      Console& console) {
  ClusterRun run(job, options, cluster, console);
  return recorded(console, [&] { return run.go(); });
}

}  // namespace poseidon::trainer
