// Daemons join a running job. The result must equal that of a job without joiners.

#include <doctest/doctest.h>

#include <sstream>

#include "core/json.h"
#include "tests/apps/cluster.h"
#include "tests/support/sanitizers.h"

using namespace poseidon;
using namespace poseidon::apps;

namespace {

/// Long enough for a daemon to join, and short enough for a test.
constexpr int kSteps = test::kIsSanitized ? 800 : 4000;
/// For daemons that look for their next job only after a second.
constexpr int kMoreSteps = test::kIsSanitized ? 1200 : 8000;

std::vector<std::string> settings(int steps) {
  std::vector<std::string> words;
  for (const std::string& each :
       {std::string("cluster.logical_shards=6"), std::string("cluster.recover=continue"),
        std::string("cluster.timeout_s=3"), std::string("data.global_batch=12"),
        std::string("comm.scheme=ps"), std::string("train.log_every=1"),
        "train.steps=" + std::to_string(steps),
        "train.checkpoint_every=" + std::to_string(steps / 5),
        "train.test_every=" + std::to_string(steps / 8)})
    words.insert(words.end(), {"--set", each});
  return words;
}

/// A server, some worker daemons, and a job that further daemons can join. undisturbed() runs the
/// same job in one process.
class GrowingCluster : public Cluster {
 public:
  explicit GrowingCluster(const std::vector<std::string>& workers, int steps = kSteps)
      : steps_(steps) {
    for (const std::string& name : workers) worker(name);
    start("poseidon-server", "s", {"--once"});
  }
  Program& worker(const std::string& name, const std::vector<std::string>& more = {"--once"}) {
    return start("poseidon-worker", name, more);
  }

  Program train(const std::string& workers, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = settings(steps_);
    words.insert(words.end(), {"--set", "cluster.max_workers=3"});
    for (const std::string& each : more) words.insert(words.end(), {"--set", each});
    return Cluster::train("run", words, "1", workers);
  }

  Json undisturbed() const {
    const std::filesystem::path folder = job.folder / "undisturbed-words";
    std::filesystem::create_directories(folder);
    std::vector<std::string> words{(job.folder / "job.json").string(), "--json", "--output",
                                   (job.folder / "undisturbed").string()};
    const std::vector<std::string> more = settings(steps_);
    words.insert(words.end(), more.begin(), more.end());
    const Finished finished = Program("poseidon-train", words, folder).wait();
    REQUIRE_MESSAGE(finished.code == 0, finished.err);
    return Json::parse(finished.out);
  }

  /// Each step and each test must have one line, with the same loss as in the run of one process.
  void check_lines() const {
    const auto lines_of = [this](const char* run) {
      std::vector<std::pair<int64_t, Json>> lines;
      std::istringstream text(trainer::read_text(job.folder / run / "metrics.jsonl"));
      for (std::string line; std::getline(text, line);) {
        const Json json = Json::parse(line);
        lines.emplace_back(json["step"].get<int64_t>(), json["loss"]);
      }
      return lines;
    };
    CHECK(lines_of("run") == lines_of("undisturbed"));
  }

  /// Compares the result of a run with the undisturbed one. Returns the summary.
  Json check_result(Program& train, const Json& undisturbed) const {
    const Finished finished = train.wait();
    CAPTURE(finished.err);
    REQUIRE(finished.code == 0);
    const Json summary = Json::parse(finished.out);
    for (const char* key : {"weights_sha256", "state_sha256", "train_loss", "test_loss"})
      CHECK(summary[key] == undisturbed[key]);
    check_lines();
    return summary;
  }

 private:
  const int steps_;
};

}  // namespace

TEST_CASE("a daemon joins a running job, and no step is repeated") {
  GrowingCluster cluster({"a", "b"});
  const Json undisturbed = cluster.undisturbed();
  Program train = cluster.train("2");
  REQUIRE(says(train, "begin with step"));
  Program& third = cluster.worker("c");
  CHECK(says(train, "worker 2 (127.0.0.1:"));
  CHECK(says(train, "3 workers and 1 server continue with step"));
  const Json summary = cluster.check_result(train, undisturbed);
  CAPTURE(summary.dump());
  const Json& views = summary["views"];
  REQUIRE(views.size() == 2);
  CHECK(views[1]["workers"] == 3);
  CHECK(views[1]["lost"].empty());
  REQUIRE(views[1]["joined"].size() == 1);
  CHECK(views[1]["joined"][0].get<std::string>().starts_with("worker 2 (127.0.0.1:"));
  CHECK(views[1]["replayed_steps"] == 0);
  CHECK(views[1]["first_step"].get<int>() > 1);
  CHECK(summary["losses"].empty());
  REQUIRE(summary["joins"].size() == 1);
  CHECK(summary["joins"][0]["who"] == "worker 2");
  CHECK(summary["joins"][0]["view"] == 2);
  CHECK(summary["joins"][0]["step"] == views[1]["first_step"]);
  const Finished finished = third.wait();
  CAPTURE(finished.err);
  CHECK(finished.code == 0);
}

TEST_CASE("a daemon replaces a killed one") {
  GrowingCluster cluster({"a", "b"});
  const Json undisturbed = cluster.undisturbed();
  Program& target = cluster.worker("c");
  Program train = cluster.train("3");
  REQUIRE(says(train, "begin with step"));
  target.send(SIGKILL);
  CHECK(says(train, "2 workers and 1 server continue with step"));
  cluster.worker("d");
  CHECK(says(train, "3 workers and 1 server continue with step"));
  const Json summary = cluster.check_result(train, undisturbed);
  CAPTURE(summary.dump());
  const Json& views = summary["views"];
  REQUIRE(views.size() == 3);
  CHECK(views[1]["workers"] == 2);
  CHECK(views[1]["lost"].size() == 1);
  CHECK(views[2]["workers"] == 3);
  CHECK(views[2]["joined"].size() == 1);
  CHECK(summary["losses"].size() == 1);
  CHECK(summary["joins"].size() == 1);
}

TEST_CASE("a worker that was stopped and is back learns that it was removed, and rejoins") {
  GrowingCluster cluster({"a", "b"}, kMoreSteps);
  const Json undisturbed = cluster.undisturbed();
  Program& stopped = cluster.worker("c", {});
  Program train = cluster.train("3", {test::kShortTimeout});
  REQUIRE(says(train, "begin with step"));
  stopped.send(SIGSTOP);
  CHECK(says(train, "2 workers and 1 server continue with step"));
  stopped.send(SIGCONT);
  CHECK(says(train, "3 workers and 1 server continue with step"));
  const Json summary = cluster.check_result(train, undisturbed);
  CAPTURE(summary.dump());
  CHECK(summary["views"].size() == 3);
  CHECK(summary["losses"].size() == 1);
  CHECK(summary["joins"].size() == 1);
}

TEST_CASE("a full job refuses a daemon with one message, and admits it after a worker fails") {
  GrowingCluster cluster({"a", "b"}, kMoreSteps);
  const Json undisturbed = cluster.undisturbed();
  Program& target = cluster.worker("c");
  Program train = cluster.train("3");
  REQUIRE(says(train, "begin with step"));
  Program& spare = cluster.worker("d", {});
  const std::string full = "the job already has its maximum of 3 workers";
  CHECK(says(train, full));
  CHECK(says(spare, "not admitted: " + full));
  target.send(SIGKILL);
  CHECK(says(train, "has joined"));
  const Json summary = cluster.check_result(train, undisturbed);
  CHECK(summary["joins"].size() == 1);
  const std::string said = trainer::read_text(cluster.job.folder / "run-words" / "stderr");
  CAPTURE(said);
  CHECK(said.find(full) == said.rfind(full));
}

TEST_CASE("a job begins with the workers present after cluster.gather_s, and later ones join it") {
  GrowingCluster cluster({"a"});
  const Json undisturbed = cluster.undisturbed();
  Program train = cluster.train("3", {"cluster.gather_s=1"});
  CHECK(says(train, "the job begins without 2 workers"));
  REQUIRE(says(train, "1 worker and 1 server begin with step 1 "));
  cluster.worker("b");
  CHECK(says(train, "2 workers and 1 server continue with step"));
  cluster.worker("c");
  CHECK(says(train, "3 workers and 1 server continue with step"));
  const Json summary = cluster.check_result(train, undisturbed);
  CHECK(summary["views"].size() == 3);
  CHECK(summary["views"][0]["workers"] == 1);
  CHECK(summary["joins"].size() == 2);
}

TEST_CASE("a job cannot have more workers than logical shards, or fewer than it begins with") {
  const trainer::TinyJob job;
  const auto refusal = [&](const std::vector<std::string>& settings, bool runs = false) {
    std::vector<std::string> words{(job.folder / "job.json").string(), "--workers", "2"};
    for (const std::string& each : settings) words.insert(words.end(), {"--set", each});
    if (!runs) words.emplace_back("--check");
    const Finished finished = Program("poseidon-train", words, job.folder).wait();
    CHECK(finished.code == 2);
    return finished.err;
  };
  CHECK(refusal({"cluster.max_workers=3", "cluster.logical_shards=2"}) ==
        "poseidon-train: --set cluster.max_workers=3: expected at most 2, one logical shard for "
        "each device, got 3\n");
  CHECK(refusal({"cluster.max_workers=1", "cluster.logical_shards=4"}) ==
        "poseidon-train: --set cluster.max_workers=1: expected at least \"workers\" (2), got 1\n");
  CHECK(
      refusal({"cluster.max_workers=2", "comm.staleness=1"}) ==
      "poseidon-train: --set cluster.max_workers=2: expected 0 with \"comm.staleness\" 1, got 2\n");
  CHECK(refusal({"cluster.gather_s=2", "comm.staleness=1"}) ==
        "poseidon-train: --set cluster.gather_s=2: expected 0 with \"comm.staleness\" 1, got 2\n");
  CHECK(refusal({"cluster.gather_s=2", "comm.policy=time"}) ==
        "poseidon-train: --set cluster.gather_s=2: expected 0 with \"comm.policy\" \"time\", which "
        "needs the times of all workers, got 2\n");
  CHECK(refusal({"cluster.max_workers=2"}, true) ==
        "poseidon-train: " + (job.folder / "job.json").string() +
            ": /cluster/max_workers: expected 0 without --external (only daemons can join later), "
            "got 2\n");
  CHECK(refusal({"cluster.gather_s=2"}, true) ==
        "poseidon-train: " + (job.folder / "job.json").string() +
            ": /cluster/gather_s: expected 0 without --external (only daemons can join later), got "
            "2\n");
}
