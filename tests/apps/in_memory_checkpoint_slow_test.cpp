// In-memory checkpoints of daemons after a failed run: how long they are kept, for which runs, and
// after which failures.

#include "tests/apps/failed_coordinator.h"

using namespace poseidon;
using namespace poseidon::apps;
namespace fs = std::filesystem;

TEST_CASE("a kept step that is later than the newest checkpoint is taken, and only then") {
  FailedCoordinator lost({"--set", "train.checkpoint_every=30"});
  const Json whole = lost.undisturbed();
  lost.kill_coordinator_after("47");
  const int64_t kept = std::max(lost.kept_by(0), lost.kept_by(1));
  // If the user names a checkpoint, the run continues from that one.
  const fs::path named = lost.cluster.job.folder / "run/checkpoints/step-30.state";
  REQUIRE(fs::exists(named));
  const fs::path copy = lost.cluster.job.folder / "copy";
  fs::copy(lost.cluster.job.folder / "run", copy, fs::copy_options::recursive);
  const Finished finished = lost.resume();
  check_same(finished, whole);
  CHECK(Json::parse(finished.out)["first_step"] == kept + 1);
  const Finished earlier = lost.resume("copy/checkpoints/step-30.state");
  check_same(earlier, whole);
  CHECK(Json::parse(earlier.out)["first_step"] == 31);
}

TEST_CASE("the coordinator and a worker are lost: what the other worker keeps is enough") {
  for (const int lost_worker : {0, 1}) {
    FailedCoordinator lost;
    const Json whole = lost.undisturbed();
    lost.kill_coordinator_after("25");
    const int64_t kept = lost.kept_by(1 - lost_worker);
    lost.cluster.end(lost.worker(lost_worker));
    lost.cluster.start("poseidon-worker", "worker-c");
    const Finished finished = lost.resume();
    check_same(finished, whole);
    CHECK(Json::parse(finished.out)["first_step"] == kept + 1);
  }
}

TEST_CASE("two coordinators are killed, one behind the other") {
  FailedCoordinator lost;
  const Json whole = lost.undisturbed();
  lost.kill_coordinator_after("25");
  lost.kept_by(0);
  Program second = lost.cluster.resume(lost.cluster.job.folder / "run");
  REQUIRE(says(second, "step 600/"));
  second.send(SIGKILL);
  second.wait();
  REQUIRE(eventually([&] { return lost.kept_by(0) >= 600 && lost.kept_by(1) >= 600; }));
  const int64_t kept = std::max(lost.kept_by(0), lost.kept_by(1));
  const Finished finished = lost.resume();
  check_same(finished, whole);
  CHECK(Json::parse(finished.out)["first_step"] == kept + 1);
}

TEST_CASE("a step is kept for cluster.rejoin_s; then the run begins anew, to the same bits") {
  FailedCoordinator lost({"--set", "cluster.rejoin_s=0.5"});
  const Json whole = lost.undisturbed();
  lost.kill_coordinator_after("25");
  const int64_t kept = lost.kept_by(0);
  for (const int i : {0, 1})
    REQUIRE(says(lost.worker(i), "dropped the in-memory checkpoint of step "));
  const Finished finished = lost.resume();
  check_same(finished, whole);
  CHECK(Json::parse(finished.out)["first_step"] == 1);
  CHECK(finished.err.find("fetched the in-memory checkpoint of step " + std::to_string(kept)) ==
        std::string::npos);
}

TEST_CASE("a step that is not of this job is not taken, and nobody is blamed") {
  FailedCoordinator lost;
  lost.kill_coordinator_after("25");
  lost.kept_by(0);
  lost.kept_by(1);
  const Finished finished =
      lost.resume("run", {"--set", "optimizer={\"type\": \"adam\", \"learning_rate\": 0.001}",
                          "--set", "train.steps=20"});
  CAPTURE(finished.err);
  CHECK(finished.code == 0);
  CHECK(finished.err.find("that does not fit this job: ") != std::string::npos);
  CHECK(Json::parse(finished.out)["first_step"] == 1);
}

TEST_CASE("a worker with --once ends with its job, and keeps nothing") {
  FailedCoordinator lost({}, {"--once"});
  lost.kill_coordinator_after("25");
  for (const int i : {0, 1}) {
    const Finished finished = lost.worker(i).wait();
    CHECK(finished.code == 3);
    CHECK(finished.err.find("keeps an in-memory checkpoint") == std::string::npos);
  }
}

TEST_CASE("a worker that keeps a step looks for a coordinator for as long, whatever it is told") {
  FailedCoordinator lost({"--set", "cluster.rejoin_s=4"}, {"--join-timeout", "1"});
  lost.kill_coordinator_after("25");
  lost.kept_by(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  CHECK_FALSE(has_ended(lost.worker(0).process()));
  const Finished finished = lost.worker(0).wait();
  CHECK(finished.code == 2);
}

TEST_CASE("a disk that is full at the end costs no step that the daemons have done") {
  FailedCoordinator lost;
  const Json whole = lost.undisturbed();
  Program train =
      lost.cluster.train("run", {"--set", "train.steps=3000", "--set", "train.log_every=1"});
  REQUIRE(says(train, "step 40/"));
  const fs::path checkpoints = lost.cluster.job.folder / "run/checkpoints";
  fs::remove_all(checkpoints);
  lost.cluster.end(lost.worker(1));
  CHECK(train.wait().code == 3);
  const int64_t kept = lost.kept_by(0);
  fs::create_directories(checkpoints);
  lost.cluster.start("poseidon-worker", "worker-c");
  const Finished finished = lost.resume();
  check_same(finished, whole);
  CHECK(Json::parse(finished.out)["first_step"] == kept + 1);
}
