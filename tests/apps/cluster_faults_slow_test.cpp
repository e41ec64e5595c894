// Real processes that are killed or stopped at random times. The others must end in time and name
// the failed node. The run on disk must continue to the same bits.

#include <doctest/doctest.h>

#include <algorithm>
#include <future>
#include <random>

#include "core/json.h"
#include "tests/apps/processes.h"
#include "tests/support/busy_machine.h"

using namespace poseidon;
using namespace poseidon::apps;
using trainer::read_text;
using trainer::TinyJob;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int kWorkers = 2, kServers = 2, kSteps = 4000;

/// Tolerance for the time limits.
double slack_seconds() { return 5 * test::slowdown(); }

std::vector<std::string> job_words(const TinyJob& job, int workers, int staleness = 0) {
  return {(job.folder / "job.json").string(),
          "--threads",
          "1",
          "--workers",
          std::to_string(workers),
          "--set",
          "cluster.logical_shards=2",
          "--set",
          "data.global_batch=8",
          "--set",
          "train.steps=" + std::to_string(kSteps),
          "--set",
          "train.log_every=1000",
          "--set",
          "comm.staleness=" + std::to_string(staleness),
          "--json"};
}

std::string undisturbed_digest(const TinyJob& job) {
  std::vector<std::string> words = job_words(job, 1, 0);
  words.insert(words.end(), {"--output", (job.folder / "undisturbed").string()});
  const Finished finished = Program("poseidon-train", words, job.folder).wait();
  REQUIRE(finished.code == 0);
  return Json::parse(finished.out)["weights_sha256"].get<std::string>();
}

enum class Role { kWorker, kServer, kCoordinator };

struct Fault {
  Role role;
  int signal = SIGKILL;
  int timeout_s = 3;
  unsigned seed = 0;
  int staleness = 0;
};

/// One job with one fault. Collects complaints about its end.
class Round {
 public:
  Round(const TinyJob& job, const std::string& digest, const Fault& fault)
      : job_(job),
        digest_(digest),
        fault_(fault),
        folder_(job.folder / ("round-" + std::to_string(fault.seed))),
        run_(folder_ / "run"),
        random_(fault.seed) {}

  /// Returns lines of complaint; "" if there are none.
  std::string go() {
    fs::create_directories(folder_);
    Program train = start();
    if (!wait_for_the_moment(train)) return complaints_ + "it never began\n";
    // If a member has already ended, the job was over before the fault.
    std::vector<Process> members = members_of(train.process(), run_);
    if (members.size() != kWorkers + kServers) return end_early(train);
    address_ = word_after(command_of(members[0].pid), "--coordinator");
    const Process target = choose(members, train);
    const auto injected_at = Clock::now();
    kill(target.pid, fault_.signal);
    std::erase_if(members, [&](const Process& each) { return each.pid == target.pid; });
    if (fault_.role == Role::kCoordinator)
      see_members_end(members, train);
    else
      see_train_end(members, target, train);
    const double seconds = std::chrono::duration<double>(Clock::now() - injected_at).count();
    if (seconds > 1.3 * fault_.timeout_s + slack_seconds())
      complain("it took " + std::to_string(seconds) + " s");
    see_nothing_left();
    if (complaints_.empty() && !without_a_step_) resume();
    return complaints_;
  }

 private:
  void complain(const std::string& what) { complaints_ += what + "\n"; }

  Program start() const {
    std::vector<std::string> words = job_words(job_, kWorkers, fault_.staleness);
    words.insert(words.end(), {"--servers", std::to_string(kServers), "--output", run_.string(),
                               "--set", "cluster.timeout_s=" + std::to_string(fault_.timeout_s)});
    return Program("poseidon-train", words, folder_);
  }

  bool wait_for_the_moment(const Program& train) {
    const bool began =
        within(30, [&] { return train.err().find("begin with step") != std::string::npos; });
    std::this_thread::sleep_for(std::chrono::milliseconds(random_() % 700));
    return began;
  }

  std::string end_early(Program& train) {
    const Finished finished = train.wait();
    if (finished.code != 0) complain("ended by itself with " + std::to_string(finished.code));
    return complaints_;
  }

  Process choose(const std::vector<Process>& members, const Program& train) {
    if (fault_.role == Role::kCoordinator) return {train.process(), "the coordinator", {}};
    const std::string role = fault_.role == Role::kWorker ? "worker " : "server ";
    const std::string name = role + std::to_string(random_() % 2);
    return *std::find_if(members.begin(), members.end(),
                         [&](const Process& each) { return each.name == name; });
  }

  /// Survivors must name the failed node, unless the coordinator had told them that the job is
  /// done.
  void see_named(const std::vector<Process>& survivors, const std::string& name) {
    for (const Process& each : survivors) {
      const std::string log = read_text(each.log);
      if (!log.ends_with("the job is done\n") &&
          log.find("warning: " + name + " (127.0.0.1:") == std::string::npos)
        complain(each.name + " does not name " + name + ": " + log);
    }
  }

  void see_train_end(const std::vector<Process>& survivors, const Process& target, Program& train) {
    if (!within(60, [&] { return has_ended(train.process()); })) complain("poseidon-train hangs");
    train.send(SIGKILL);
    const Finished finished = train.wait();
    // The job may already be done if the target had sent all its data.
    if (finished.code == 0) return;
    if (finished.code != 3) complain("exit code " + std::to_string(finished.code));
    const size_t line = finished.err.find("poseidon-train: ");
    const std::string said = line == std::string::npos ? finished.err : finished.err.substr(line);
    if (!said.starts_with("poseidon-train: " + target.name + " (127.0.0.1:") ||
        said.find(" failed in step ") == std::string::npos ||
        (said.find("/checkpoints/step-") == std::string::npos && !in_first_steps(said)) ||
        std::count(said.begin(), said.end(), '\n') != 1)
      complain("it says: " + said);
    if (finished.out.empty() == fs::exists(run_ / "summary.json"))
      complain("the printed results and those on disk differ: " + finished.out);
    see_named(survivors, target.name);
    see_awaited(said, target);
    for (const Process& each : survivors)
      if (!has_ended(each.pid)) complain(each.name + " is left");
    if (!has_ended(target.pid)) complain("the victim is left");
  }

  /// The message must name the data that a survivor awaited from a stopped server. Does not apply
  /// to a server without chunks.
  void see_awaited(const std::string& said, const Process& target) {
    const Json chunks = Json::parse(read_text(run_ / "plan.json"))["chunks"];
    const bool holds = std::any_of(chunks.begin(), chunks.end(), [&](const Json& chunk) {
      return target.name == "server " + std::to_string(chunk["server"].get<int>());
    });
    const bool in_the_end = said.find(" in step " + std::to_string(kSteps + 1)) != said.npos;
    if (fault_.signal != SIGSTOP || !holds || in_the_end) return;
    const size_t place = said.find(" awaited the sum of \"");
    if (place == said.npos || said.find(" from " + target.name + ";", place) == said.npos)
      complain("who awaited what from " + target.name + "? " + said);
  }

  void see_members_end(const std::vector<Process>& survivors, Program& train) {
    if (!within(60, [&] {
          return std::all_of(survivors.begin(), survivors.end(),
                             [](const Process& each) { return has_ended(each.pid); });
        }))
      complain("a survivor hangs");
    train.send(SIGKILL);
    train.wait();
    if (fs::exists(run_ / "summary.json")) return;
    see_named(survivors, "the coordinator");
    in_first_steps(read_text(survivors[0].log));
  }

  /// Whether the failure happened before the first step was complete. Then there is no checkpoint.
  bool in_first_steps(const std::string& said) {
    const size_t place = said.find(" failed in step ");
    const bool first =
        place != std::string::npos && std::stoi(said.substr(place + 16)) <= 2 + fault_.staleness;
    const fs::path checkpoints = run_ / "checkpoints";
    without_a_step_ = first && fs::is_empty(checkpoints);
    return without_a_step_;
  }

  void see_nothing_left() {
    if (is_listening(address_)) complain("somebody listens at " + address_);
    for (const auto& entry : fs::recursive_directory_iterator(run_))
      if (entry.path().extension() == ".tmp") complain(entry.path().string() + " is left");
  }

  /// Resumes the run with one worker, which must give the same bits. With staleness, the checkpoint
  /// has no sums in flight. Then the job only has to finish.
  void resume() {
    const Program program("poseidon-train", {"--resume", run_.string(), "--workers", "1", "--json"},
                          folder_);
    const Finished finished = Program(program).wait();
    if (finished.code != 0) return complain("resume: " + finished.err);
    if (finished.err.find("warning") != std::string::npos) complain("resume: " + finished.err);
    const Json summary = Json::parse(finished.out);
    if (summary["steps"] != kSteps) complain("resumed to another end");
    if (fault_.staleness == 0 && summary["weights_sha256"] != digest_)
      complain("resumed to other bits");
  }

  const TinyJob& job_;
  const std::string digest_;
  const Fault fault_;
  const fs::path folder_, run_;
  std::mt19937 random_;
  std::string address_, complaints_;
  bool without_a_step_ = false;
};

/// Injects a fault into a child before the job starts: before the child has joined, or up to
/// `delay_ms` later. A killed child's log must be kept, and the same command must run again.
std::string strike_early(const TinyJob& job, int signal, unsigned seed, unsigned delay_ms) {
  constexpr int kTimeout = 3, kJoinDeadline = 15;
  std::mt19937 random(seed);
  const fs::path folder = job.folder / ("early-" + std::to_string(seed)), run = folder / "run";
  fs::create_directories(folder);
  std::vector<std::string> words = job_words(job, kWorkers);
  words.insert(words.end(), {"--servers", std::to_string(kServers), "--output", run.string(),
                             "--set", "cluster.timeout_s=" + std::to_string(kTimeout)});
  Program train("poseidon-train", words, folder);
  const std::string name = (seed % 2 == 0 ? "worker " : "server ") + std::to_string(seed / 2 % 2);
  Process target;
  if (!within(10, [&] {
        for (const Process& each : members_of(train.process(), run))
          if (each.name == name) target = each;
        return target.pid != 0;
      }))
    return name + " is not started";
  if (delay_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(random() % delay_ms));
  const bool began = train.err().find("begin with step") != std::string::npos;
  const auto injected_at = Clock::now();
  kill(target.pid, signal);
  const Finished finished = train.wait();
  const double seconds = std::chrono::duration<double>(Clock::now() - injected_at).count();
  if (began || finished.code == 0) return "";
  const std::string at = "poseidon-train: " + name;
  const size_t line = finished.err.rfind("poseidon-train: ");
  const std::string said = line == std::string::npos ? finished.err : finished.err.substr(line);
  std::string wrong;
  if (finished.code != 3) wrong += "exit code " + std::to_string(finished.code) + "; ";
  if (!said.starts_with(at) || said.find(" failed ") == said.npos) wrong += "it says: " + said;
  if (signal == SIGKILL && (said.find("it was ended by signal 9 (see ") == said.npos ||
                            said.find(target.log.filename().string()) == said.npos))
    wrong += "it does not say how: " + said;
  if (seconds > (signal == SIGKILL ? 0 : kJoinDeadline) + slack_seconds())
    wrong += "it took " + std::to_string(seconds) + " s";
  if (!has_ended(target.pid)) wrong += "the victim is left";
  if (signal == SIGKILL && !fs::exists(target.log)) wrong += "its log is deleted";
  if (seed != 0 || signal != SIGKILL) return wrong;
  words.insert(words.end(), {"--max-steps", "1"});
  const Finished again = Program("poseidon-train", words, folder).wait();
  if (again.code != 0) wrong += "the same command does not run again: " + again.err;
  return wrong;
}

void play_early(unsigned rounds, int signal, unsigned delay_ms, unsigned abreast) {
  const TinyJob job;
  for (unsigned first = 0; first < rounds; first += abreast) {
    std::vector<std::future<std::string>> running;
    for (unsigned seed = first; seed < first + abreast; ++seed)
      running.push_back(std::async(std::launch::async, [&job, signal, seed, delay_ms] {
        return strike_early(job, signal, seed, delay_ms);
      }));
    for (auto& each : running) CHECK(each.get() == "");
  }
}

/// Runs rounds that cycle through the roles, `abreast` of them in parallel.
void play(int rounds, int signal, int timeout_s, unsigned seed, int abreast, int staleness = 0) {
  const TinyJob job;
  const std::string digest = undisturbed_digest(job);
  for (int first = 0; first < rounds; first += abreast) {
    std::vector<std::future<std::string>> running;
    for (int i = first; i < std::min(rounds, first + abreast); ++i) {
      const Fault fault{static_cast<Role>(i % 3), signal, timeout_s,
                        seed + static_cast<unsigned>(i), staleness};
      running.push_back(std::async(
          std::launch::async, [&job, &digest, fault] { return Round(job, digest, fault).go(); }));
    }
    for (size_t i = 0; i < running.size(); ++i) {
      CAPTURE(seed + static_cast<unsigned>(first) + i);
      CHECK(running[i].get() == "");
    }
  }
}

}  // namespace

TEST_CASE("SIGKILL of any process at any moment") { play(20, SIGKILL, 3, 100, 2); }

TEST_CASE("SIGKILL of any process while sums are in flight") { play(9, SIGKILL, 3, 500, 2, 2); }

TEST_CASE("SIGSTOP of any process at any moment") { play(20, SIGSTOP, 3, 200, 4); }

TEST_CASE("SIGKILL and SIGSTOP with a longer timeout") {
  play(4, SIGKILL, 10, 300, 2);
  play(6, SIGSTOP, 10, 400, 6);
}

TEST_CASE("SIGKILL of a child before it joins, or before the first step") {
  play_early(8, SIGKILL, 0, 2);
  play_early(16, SIGKILL, 120, 2);
}

TEST_CASE("SIGSTOP of a child before it joins, or before the first step") {
  play_early(4, SIGSTOP, 0, 4);
  play_early(8, SIGSTOP, 120, 4);
}
