#pragma once

#include <algorithm>
#include <random>

#include "core/json.h"
#include "tests/apps/processes.h"

/// Jobs of real processes in which members fail, compared with the same job undisturbed.
namespace poseidon::apps {

/// Three workers, two servers, six logical shards, and checkpoints and tests during the run.
struct RecoveryJob {
  /// `more`: additional arguments.
  explicit RecoveryJob(int steps_, std::string scheme_ = "auto",
                       std::vector<std::string> more_ = {})
      : steps(steps_), scheme(std::move(scheme_)), more(std::move(more_)) {}

  std::vector<std::string> words(int workers, const std::filesystem::path& run) const {
    std::vector<std::string> all = base_words(workers, run);
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<std::string> base_words(int workers, const std::filesystem::path& run) const {
    return {(job.folder / "job.json").string(),
            "--threads",
            "1",
            "--workers",
            std::to_string(workers),
            "--servers",
            "2",
            "--set",
            "cluster.logical_shards=6",
            "--set",
            "cluster.recover=continue",
            "--set",
            "cluster.timeout_s=3",
            "--set",
            "data.global_batch=12",
            "--set",
            "comm.scheme=" + scheme,
            "--set",
            "train.steps=" + std::to_string(steps),
            "--set",
            "train.log_every=1",
            "--set",
            "train.checkpoint_every=" + std::to_string(steps / 5),
            "--set",
            "train.test_every=" + std::to_string(steps / 8),
            "--json",
            "--output",
            run.string()};
  }

  /// Summary of the same job with one worker, under the schemes of the job with several workers.
  Json undisturbed() const {
    std::vector<std::string> all = words(1, job.folder / "undisturbed");
    const std::filesystem::path plan = job.folder / "plan.json";
    std::vector<std::string> planning = words(3, job.folder / "planned");
    planning.push_back("--plan");
    const Finished planned = Program("poseidon-train", planning, job.folder).wait();
    if (planned.code != 0) throw RunError(planned.err);
    trainer::write_text(plan, planned.out);
    all.insert(all.end(), {"--set", "comm.plan=" + plan.string()});
    const Finished finished = Program("poseidon-train", all, job.folder).wait();
    if (finished.code != 0) throw RunError(finished.err);
    return Json::parse(finished.out);
  }

  const trainer::TinyJob job;
  const int steps;
  const std::string scheme;
  std::vector<std::string> more;
};

/// A fault of one member.
struct FaultInjection {
  std::string target;  ///< "worker 1"
  int signal = SIGKILL;
  int after_ms = 0;              ///< delay after the start of the job, or after the previous fault
  int64_t after_checkpoint = 0;  ///< wait for the checkpoint of this step first; 0: none
  std::string after_line = "";   ///< wait for this line of poseidon-train first
};

/// One run of the job with faults. Collects complaints.
class RecoveryRound {
 public:
  /// `first_step`: steps done before this run.
  RecoveryRound(const RecoveryJob& job, const Json& undisturbed, const std::string& name,
                int64_t first_step = 0)
      : job_(job),
        first_step_(first_step),
        undisturbed_(undisturbed),
        folder_(job.job.folder / ("round-" + name)),
        run_(folder_ / "run") {}

  /// Returns lines of complaint; "" if there are none.
  std::string go(const std::vector<FaultInjection>& faults) {
    std::filesystem::create_directories(folder_);
    Program train("poseidon-train", job_.words(3, run_), folder_);
    if (!within(30, [&] { return train.err().find("begin with step") != std::string::npos; }))
      complain("it never began");
    const std::vector<Process> members = members_of(train.process(), run_);
    int injected = 0;
    for (const FaultInjection& fault : faults) injected += inject(train, members, fault);
    if (!within(120, [&] { return has_ended(train.process()); })) complain("poseidon-train hangs");
    train.send(SIGKILL);
    const Finished finished = train.wait();
    if (finished.code != 0)
      complain("exit code " + std::to_string(finished.code) + ": " + finished.err);
    else
      see(Json::parse(finished.out), injected);
    for (const Process& each : members)
      if (!has_ended(each.pid)) complain(each.name + " is left");
    return complaints_;
  }

  const Json& summary() const { return summary_; }

 private:
  void complain(const std::string& what) { complaints_ += what + "\n"; }

  int inject(const Program& train, const std::vector<Process>& members,
             const FaultInjection& fault) {
    if (!within(60, [&] { return train.err().find(fault.after_line) != std::string::npos; }))
      complain("it never said: " + fault.after_line);
    const auto state = run_ / "checkpoints" / text("step-", fault.after_checkpoint, ".state");
    if (fault.after_checkpoint > 0 && !within(60, [&] { return std::filesystem::exists(state); }))
      complain("there is no " + state.string());
    std::this_thread::sleep_for(std::chrono::milliseconds(fault.after_ms));
    for (const Process& each : members)
      if (each.name == fault.target && !has_ended(each.pid)) {
        kill(each.pid, fault.signal);
        return 1;
      }
    return 0;
  }

  /// Compares the result. Fewer failures than faults are allowed: a fault after the end of the job
  /// has no effect.
  void see(const Json& summary, int injected) {
    summary_ = summary;
    for (const char* key : {"weights_sha256", "state_sha256", "train_loss"})
      if (summary[key] != undisturbed_[key])
        complain(std::string(key) + " is " + summary[key].dump() + ", undisturbed " +
                 undisturbed_[key].dump());
    const Json& views = summary["views"];
    size_t failed = 0;
    for (const Json& view : views) failed += view.value("lost", Json::array()).size();
    if (failed > static_cast<size_t>(injected))
      complain("more are lost than were struck: " + views.dump());
    if (views.back()["workers"].get<size_t>() + views.back()["servers"].get<size_t>() + failed != 5)
      complain("views: " + views.dump());
    see_lines();
  }

  /// Each step and each test must have one line in metrics.jsonl, in order.
  void see_lines() {
    std::istringstream lines(trainer::read_text(run_ / "metrics.jsonl"));
    int64_t step = first_step_, tested = 0;
    for (std::string line; std::getline(lines, line);) {
      const Json json = Json::parse(line);
      int64_t& last = json["type"] == "train" ? step : tested;
      const int64_t next = json["step"].get<int64_t>();
      if (next <= last || (&last == &step && next != last + 1))
        complain("a line of step " + std::to_string(next) + " behind " + std::to_string(last));
      last = next;
    }
    if (step != job_.steps) complain("the last line is of step " + std::to_string(step));
  }

  const RecoveryJob& job_;
  const int64_t first_step_;
  const Json& undisturbed_;
  const std::filesystem::path folder_, run_;
  std::string complaints_;
  Json summary_;
};

}  // namespace poseidon::apps
