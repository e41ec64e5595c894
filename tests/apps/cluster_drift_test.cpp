// A worker of a job of real processes makes a wrong update without noticing. With three workers it
// is the minority, and the others continue from a checkpoint. With two workers the job cannot
// decide which one is right.

#include <doctest/doctest.h>

#include "tests/apps/cluster.h"
#include "tests/support/sanitizers.h"

using namespace poseidon;
using namespace poseidon::apps;

namespace {

/// Daemons. Worker 1 uses twice the learning rate in the update of step 250.
class DriftingJob {
 public:
  explicit DriftingJob(int workers, bool drifts_once = true) : workers_(workers) {
    cluster_.start("poseidon-server", "server", {"--once"});
    cluster_.start("poseidon-worker", "worker-0", {"--once", "--rank", "0"});
    std::vector<std::string> words{"--rank", "1", "--threads", "1"};
    if (drifts_once) words.emplace_back("--once");
    drifting_ = &cluster_.start("poseidon-worker-drifting", "drifting", words);
    for (int rank = 2; rank < workers; ++rank)
      cluster_.start("poseidon-worker", "worker-" + std::to_string(rank),
                     {"--once", "--rank", std::to_string(rank)});
  }

  Program start(const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = words();
    for (const std::string& each : more) all.insert(all.end(), {"--set", each});
    return cluster_.train("run", all, "1", std::to_string(workers_));
  }
  Finished train() { return start().wait(); }
  Program& another() { return cluster_.start("poseidon-worker", "another"); }
  Program& drifting() { return *drifting_; }

  /// Summary of the same job by one process without the fault.
  Json undisturbed() const {
    std::vector<std::string> all = words();
    all.insert(all.end(), {(cluster_.job.folder / "job.json").string(), "--output",
                           (cluster_.job.folder / "alone").string()});
    return alone(all);
  }
  /// Summary of one process that continues from the last checkpoint.
  Json resumed() const { return alone({"--resume", (cluster_.job.folder / "run").string()}); }
  std::vector<double> losses(const std::string& name) const {
    return trainer::losses_of(cluster_.job.folder / name);
  }

 private:
  Json alone(std::vector<std::string> words) const {
    words.insert(words.end(), {"--workers", "1", "--servers", "0", "--threads", "1", "--json"});
    const std::filesystem::path folder = cluster_.job.folder / "alone-words";
    std::filesystem::create_directories(folder);
    const Finished finished = Program("poseidon-train", words, folder).wait();
    CAPTURE(finished.err);
    REQUIRE(finished.code == 0);
    return Json::parse(finished.out);
  }

  std::vector<std::string> words() const {
    std::vector<std::string> all;
    for (const char* word : {"cluster.recover=continue", "cluster.logical_shards=3",
                             "cluster.digest_every=2", "data.global_batch=6", "comm.scheme=ps",
                             "train.steps=400", "train.checkpoint_every=50", "train.log_every=1"})
      all.insert(all.end(), {"--set", word});
    return all;
  }

  const int workers_;
  Cluster cluster_;
  Program* drifting_ = nullptr;
};

}  // namespace

TEST_CASE("a diverged worker is named and removed, and the others continue from a checkpoint") {
  DriftingJob job(3);
  const Json undisturbed = job.undisturbed();
  const Finished finished = job.train();
  CAPTURE(finished.err);
  REQUIRE(finished.code == 0);
  CHECK(finished.err.find("worker 1 (127.0.0.1:") != std::string::npos);
  CHECK(finished.err.find(") diverged from the other workers in step 25") != std::string::npos);
  CHECK(finished.err.find(" differs from that of 2 other workers after 25") != std::string::npos);
  const Json summary = Json::parse(finished.out);
  for (const char* key : {"weights_sha256", "state_sha256", "train_loss"})
    CHECK(summary[key] == undisturbed[key]);
  const Json& views = summary["views"];
  REQUIRE(views.size() == 2);
  CHECK(views[1]["workers"] == 2);
  CHECK(views[1]["first_step"].get<int>() % 50 == 1);
  CHECK(views[1]["first_step"].get<int>() > 1);
  CHECK(views[1]["replayed_steps"].get<int>() >= 250 - views[1]["first_step"].get<int>());
  CHECK(summary["losses"][0]["who"] == "worker 1");
  // Repeated steps replace the earlier lines of metrics.
  CHECK(job.losses("run") == job.losses("alone"));
  const Finished drifting = job.drifting().wait();
  CHECK(drifting.code == 1);
  CHECK(drifting.err.find("worker 1 (127.0.0.1:") != std::string::npos);
  CHECK(drifting.err.find("diverged from the other workers") != std::string::npos);
}

TEST_CASE("divergence of two workers ends the job, which resumes from the last checkpoint") {
  DriftingJob job(2);
  const Finished finished = job.train();
  CAPTURE(finished.err);
  CHECK(finished.code == 1);
  CHECK(finished.err.find("the workers diverged in step 25") != std::string::npos);
  CHECK(finished.err.find(" of worker 0 differs from that of worker 1 after 25") !=
        std::string::npos);
  CHECK(finished.err.find("; the last checkpoint is ") != std::string::npos);
  const std::string whole = job.undisturbed()["state_sha256"];
  CHECK(job.resumed()["state_sha256"] == whole);
}

TEST_CASE(
    "a diverged daemon does not rejoin the job, and no other daemon of its host is admitted") {
  DriftingJob job(3, false);
  const int steps = test::kIsSanitized ? 1200 : 8000;
  Program train = job.start({"train.steps=" + std::to_string(steps), "cluster.max_workers=3",
                             "train.log_every=100", "train.checkpoint_every=200"});
  REQUIRE(says(train, "diverged from the other workers"));
  CHECK(says(job.drifting(), "this node does not rejoin this job"));
  CHECK(says(job.drifting(), "still runs the job in which this node diverged; trying again"));
  const std::string why = "a worker on the node's host diverged from the other workers";
  CHECK(says(job.another(), "not admitted: " + why));
  const Finished finished = train.wait();
  CAPTURE(finished.err);
  REQUIRE(finished.code == 0);
  CHECK(finished.err.find(why) != std::string::npos);
  const Json summary = Json::parse(finished.out);
  CHECK(summary["views"].size() == 2);
  CHECK(summary["joins"].empty());
}
