// A job of real processes with staleness continues after a node failure: from its last checkpoint,
// or from its first values. The result must equal that of an undisturbed job.

#include <doctest/doctest.h>

#include "tests/apps/cluster.h"
#include "tests/apps/recovery_rounds.h"
#include "tests/support/sanitizers.h"

using namespace poseidon;
using namespace poseidon::apps;

namespace {

constexpr int kLateSteps = test::kIsSanitized ? 300 : 1000;
constexpr int kEvery = kLateSteps / 10;

std::vector<std::string> set(const std::vector<std::string>& values) {
  std::vector<std::string> words;
  for (const std::string& value : values) words.insert(words.end(), {"--set", value});
  return words;
}

RecoveryJob late_job(const std::string& scheme, int staleness, int checkpoint_every) {
  return RecoveryJob(kLateSteps, scheme,
                     set({"comm.staleness=" + std::to_string(staleness),
                          "train.checkpoint_every=" + std::to_string(checkpoint_every),
                          "train.keep_checkpoints=1", "optimizer.average_decay=0.9"}));
}

/// Runs one round. Returns the first step of the second view, counted from 1.
int restarts_with(const RecoveryJob& job, const Json& undisturbed, const FaultInjection& fault) {
  RecoveryRound round(job, undisturbed, "one");
  CHECK(round.go({fault}) == "");
  const Json views = round.summary()["views"];
  CAPTURE(views.dump());
  REQUIRE(views.size() == 2);
  CHECK(views[1]["lost"].size() == 1);
  CHECK(round.summary()["losses"][0]["who"] == fault.target);
  CHECK(views[1]["replayed_steps"].get<int>() >= 0);
  return views[1]["first_step"].get<int>();
}

}  // namespace

TEST_CASE("late sums: after a failure a job continues from its last checkpoint, to the same bits") {
  for (const auto& failed :
       {std::pair("ps", "worker 0"), {"sfb", "worker 1"}, {"ps", "server 0"}}) {
    const char* target = failed.second;
    CAPTURE(target);
    const RecoveryJob job = late_job(failed.first, 2, kEvery);
    const int step = restarts_with(job, job.undisturbed(),
                                   {.target = target, .after_ms = 5, .after_checkpoint = kEvery});
    CHECK(step > 1);
    CHECK(step % kEvery == 1);
  }
}

TEST_CASE("late sums: after a failure a job without a checkpoint restarts at step 1") {
  const RecoveryJob job = late_job("auto", 1, 10 * kLateSteps);
  CHECK(restarts_with(job, job.undisturbed(), {.target = "worker 2", .after_ms = 100}) == 1);
}

namespace {

/// A job without staleness that continues from a checkpoint with the sums of two steps in flight.
struct ResumedJob {
  explicit ResumedJob(int checkpoint_every) : job(late_job("ps", 2, checkpoint_every)) {
    const std::filesystem::path first = job.job.folder / "first";
    run(job.words(1, first), {"--max-steps", "7"});
    job.more.insert(job.more.end(), {"--resume", first.string(), "--set", "comm.staleness=0"});
    undisturbed = run(job.words(1, job.job.folder / "alone"), {});
  }
  Json run(std::vector<std::string> words, const std::vector<std::string>& more) const {
    words.insert(words.end(), more.begin(), more.end());
    const Finished finished = Program("poseidon-train", words, job.job.folder).wait();
    CAPTURE(finished.err);
    REQUIRE(finished.code == 0);
    return Json::parse(finished.out);
  }

  RecoveryJob job;
  Json undisturbed;
};

}  // namespace

TEST_CASE("after a failure a run resumed with sums in flight returns to its first checkpoint") {
  const ResumedJob resumed(10 * kLateSteps);
  RecoveryRound round(resumed.job, resumed.undisturbed, "resumed", 7);
  CHECK(round.go({{.target = "worker 1", .after_ms = 100}}) == "");
  CHECK(round.summary()["views"][1]["first_step"] == 8);
}

TEST_CASE("after a later checkpoint a run resumed with sums in flight returns to the common step") {
  const ResumedJob resumed(kEvery);
  RecoveryRound round(resumed.job, resumed.undisturbed, "later", 7);
  CHECK(round.go({{.target = "worker 1", .after_checkpoint = kEvery},
                  {.target = "server 0", .after_ms = 50}}) == "");
  const Json views = round.summary()["views"];
  CAPTURE(views.dump());
  REQUIRE(views.size() >= 2);
  CHECK(views[1]["first_step"].get<int>() % kEvery == 1);
  if (views.size() == 3) CHECK(views[2]["replayed_steps"].get<int>() <= 2);
}

TEST_CASE("a node that fails while checkpoint values are sent to all is removed too") {
  const ResumedJob resumed(kEvery);
  for (const int after_ms : {3, 4, 5, 6, 7, 8}) {
    CAPTURE(after_ms);
    RecoveryRound round(resumed.job, resumed.undisturbed, "given-" + std::to_string(after_ms), 7);
    CHECK(round.go({{.target = "worker 1", .after_checkpoint = kEvery},
                    {.target = "server 0",
                     .after_ms = after_ms,
                     .after_line = "continues without it"}}) == "");
  }
}

namespace {

std::vector<std::string> words_of_daemons() {
  return set({"cluster.recover=continue", "cluster.timeout_s=20", "cluster.logical_shards=2",
              "data.global_batch=6", "comm.scheme=ps", "comm.staleness=1", "train.steps=1000",
              "train.checkpoint_every=20", "train.log_every=1"});
}

/// The state of the same job by a single process.
std::string undisturbed_state(const Cluster& cluster) {
  std::vector<std::string> words = words_of_daemons();
  words.insert(words.end(), {(cluster.job.folder / "job.json").string(), "--output",
                             (cluster.job.folder / "alone").string(), "--workers", "1", "--servers",
                             "0", "--threads", "1", "--json"});
  const Finished finished = Program("poseidon-train", words, cluster.job.folder).wait();
  REQUIRE_MESSAGE(finished.code == 0, finished.err);
  return Json::parse(finished.out)["state_sha256"];
}

/// The steps of the checkpoints that a run has written, oldest first.
std::vector<int64_t> steps_in(const std::filesystem::path& folder) {
  std::vector<int64_t> steps;
  for (int64_t step = 20; step <= 1000; step += 20)
    if (std::filesystem::exists(folder / text("step-", step, ".state"))) steps.push_back(step);
  return steps;
}

/// Waits until a stopped job has written no checkpoint for three seconds. Returns the steps of all
/// checkpoints, oldest first.
std::vector<int64_t> final_steps(const std::filesystem::path& folder) {
  std::vector<int64_t> steps = steps_in(folder);
  for (int unchanged = 0; unchanged < 3; ++unchanged) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const std::vector<int64_t> now = steps_in(folder);
    if (now != steps) unchanged = -1;
    steps = now;
  }
  return steps;
}

void flip_a_bit(const std::filesystem::path& path) {
  std::string bytes = trainer::read_text(path);
  bytes[bytes.size() / 2] ^= 1;
  trainer::write_text(path, bytes);
}

}  // namespace

TEST_CASE("a job continues from the checkpoint before if the last one is damaged") {
  for (const bool all_are_damaged : {false, true}) {
    Cluster cluster;
    const std::string state = undisturbed_state(cluster);
    for (const char* name : {"a", "s"})
      cluster.start(*name == 'a' ? "poseidon-worker" : "poseidon-server", name, {"--once"});
    Program& target = cluster.start("poseidon-worker", "b", {"--once"});
    Program train = cluster.train("run", words_of_daemons());
    const std::filesystem::path folder = cluster.job.folder / "run/checkpoints";
    REQUIRE(eventually([&] { return steps_in(folder).size() >= 2; }));
    target.send(SIGSTOP);  // all other nodes wait for the target now
    const std::vector<int64_t> steps = final_steps(folder);
    for (const int64_t step : steps)
      if (all_are_damaged || step == steps.back())
        flip_a_bit(folder / text("step-", step, ".safetensors"));
    target.send(SIGKILL);
    const Finished finished = train.wait();
    CAPTURE(finished.err);
    REQUIRE(finished.code == 0);
    CHECK(finished.err.find(text("step-", steps.back(), ".safetensors: is corrupt")) !=
          std::string::npos);
    const Json summary = Json::parse(finished.out);
    CHECK(summary["state_sha256"] == state);
    REQUIRE(summary["views"].size() == 2);
    const int64_t expected = all_are_damaged ? 0 : steps[steps.size() - 2];
    CHECK(summary["views"][1]["first_step"] == expected + 1);
    CHECK(trainer::losses_of(cluster.job.folder / "run") ==
          trainer::losses_of(cluster.job.folder / "alone"));
  }
}
