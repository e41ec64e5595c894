#pragma once

#include <doctest/doctest.h>

#include "core/json.h"
#include "tests/apps/cluster.h"
#include "tests/support/sanitizers.h"

/// A run with daemons whose coordinator is killed.
namespace poseidon::apps {

using Words = std::vector<std::string>;

inline Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Two workers, a server, and a coordinator that is killed during its run.
class FailedCoordinator {
 public:
  explicit FailedCoordinator(Words settings = {}, const Words& worker_words = {})
      : settings_(with({"--set", test::kIsSanitized ? "train.steps=1000" : "train.steps=3000",
                        "--set", "train.log_every=1"},
                       settings)) {
    workers_[0] =
        &cluster.start("poseidon-worker", "worker-a", with({"--rank", "0"}, worker_words));
    workers_[1] =
        &cluster.start("poseidon-worker", "worker-b", with({"--rank", "1"}, worker_words));
    cluster.start("poseidon-server", "server");
  }

  Json undisturbed() {
    const Finished finished = cluster.train("whole", settings_).wait();
    CAPTURE(finished.err);
    REQUIRE(finished.code == 0);
    return Json::parse(finished.out);
  }

  /// Starts a run and waits until it has done this step.
  Program start_until(const std::string& step) {
    Program train = cluster.train("run", settings_);
    REQUIRE(says(train, "step " + step + "/"));
    return train;
  }

  void kill_coordinator_after(const std::string& step) {
    Program train = start_until(step);
    train.send(SIGKILL);
    train.wait();
  }

  Finished resume(const std::string& named = "run", const Words& more = {}) {
    return cluster.resume(cluster.job.folder / named, more).wait();
  }

  Program& worker(int i) { return *workers_[i]; }
  /// The step of the in-memory checkpoint that a worker reports.
  int64_t kept_by(int i) {
    const std::string words = "keeps an in-memory checkpoint of step ";
    REQUIRE(says(worker(i), words));
    const std::string err = worker(i).err();
    return std::stoll(err.substr(err.rfind(words) + words.size()));
  }

  Cluster cluster;

 private:
  const Words settings_;
  Program* workers_[2] = {};
};

/// Checks that the run did all steps and has the bits of an undisturbed run.
inline void check_same(const Finished& finished, const Json& whole) {
  CAPTURE(finished.err);
  REQUIRE(finished.code == 0);
  const Json summary = Json::parse(finished.out);
  CHECK(summary["steps"] == whole["steps"]);
  CHECK(summary["weights_sha256"] == whole["weights_sha256"]);
  CHECK(summary["state_sha256"] == whole["state_sha256"]);
}

}  // namespace poseidon::apps
