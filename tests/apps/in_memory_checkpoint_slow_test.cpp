// In-memory checkpoints of daemons after a failed run: how long they are kept, for which runs, and
// after which failures.

#include "tests/apps/failed_coordinator.h"

using namespace poseidon;
using namespace poseidon::apps;
namespace fs = std::filesystem;

TEST_CASE("an in-memory checkpoint is used only if it is later than the newest checkpoint") {
  FailedCoordinator failed_job({"--set", "train.checkpoint_every=30"});
  const Json whole = failed_job.undisturbed();
  failed_job.kill_coordinator_after("47");
  const int64_t kept = std::max(failed_job.kept_by(0), failed_job.kept_by(1));
  // If the user names a checkpoint, the run continues from that one.
  const fs::path named = failed_job.cluster.job.folder / "run/checkpoints/step-30.state";
  REQUIRE(fs::exists(named));
  const fs::path copy = failed_job.cluster.job.folder / "copy";
  fs::copy(failed_job.cluster.job.folder / "run", copy, fs::copy_options::recursive);
  const Finished finished = failed_job.resume();
  check_same(finished, whole);
  CHECK(Json::parse(finished.out)["first_step"] == kept + 1);
  const Finished earlier = failed_job.resume("copy/checkpoints/step-30.state");
  check_same(earlier, whole);
  CHECK(Json::parse(earlier.out)["first_step"] == 31);
}

TEST_CASE("coordinator and worker fail: the other worker's in-memory checkpoint is sufficient") {
  for (const int failed_worker : {0, 1}) {
    FailedCoordinator failed_job;
    const Json whole = failed_job.undisturbed();
    failed_job.kill_coordinator_after("25");
    const int64_t kept = failed_job.kept_by(1 - failed_worker);
    failed_job.cluster.end(failed_job.worker(failed_worker));
    failed_job.cluster.start("poseidon-worker", "worker-c");
    const Finished finished = failed_job.resume();
    check_same(finished, whole);
    CHECK(Json::parse(finished.out)["first_step"] == kept + 1);
  }
}

TEST_CASE("two coordinators are killed, one after the other") {
  FailedCoordinator failed_job;
  const Json whole = failed_job.undisturbed();
  failed_job.kill_coordinator_after("25");
  const int64_t first = std::max(failed_job.kept_by(0), failed_job.kept_by(1));
  Program second = failed_job.cluster.resume(failed_job.cluster.job.folder / "run");
  REQUIRE(says(second, "step 600/"));
  second.send(SIGKILL);
  second.wait();
  // A worker reports the loss of step 600 before it has the step's sums, so it may keep step 599.
  REQUIRE(
      eventually([&] { return failed_job.kept_by(0) > first && failed_job.kept_by(1) > first; }));
  const int64_t kept = std::max(failed_job.kept_by(0), failed_job.kept_by(1));
  const Finished finished = failed_job.resume();
  check_same(finished, whole);
  CHECK(Json::parse(finished.out)["first_step"] == kept + 1);
}

TEST_CASE(
    "after cluster.rejoin_s the in-memory checkpoint is dropped; the run restarts, same bits") {
  FailedCoordinator failed_job({"--set", "cluster.rejoin_s=0.5"});
  const Json whole = failed_job.undisturbed();
  failed_job.kill_coordinator_after("25");
  const int64_t kept = failed_job.kept_by(0);
  for (const int i : {0, 1})
    REQUIRE(says(failed_job.worker(i), "dropped the in-memory checkpoint of step "));
  const Finished finished = failed_job.resume();
  check_same(finished, whole);
  CHECK(Json::parse(finished.out)["first_step"] == 1);
  CHECK(finished.err.find("fetched the in-memory checkpoint of step " + std::to_string(kept)) ==
        std::string::npos);
}

TEST_CASE(
    "an in-memory checkpoint of another job is not used, and no worker is reported as failed") {
  FailedCoordinator failed_job;
  failed_job.kill_coordinator_after("25");
  failed_job.kept_by(0);
  failed_job.kept_by(1);
  const Finished finished =
      failed_job.resume("run", {"--set", "optimizer={\"type\": \"adam\", \"learning_rate\": 0.001}",
                                "--set", "train.steps=20"});
  CAPTURE(finished.err);
  CHECK(finished.code == 0);
  CHECK(finished.err.find("that does not fit this job: ") != std::string::npos);
  CHECK(Json::parse(finished.out)["first_step"] == 1);
}

TEST_CASE("a worker with --once ends with its job and keeps no in-memory checkpoint") {
  FailedCoordinator failed_job({}, {"--once"});
  failed_job.kill_coordinator_after("25");
  for (const int i : {0, 1}) {
    const Finished finished = failed_job.worker(i).wait();
    CHECK(finished.code == 3);
    CHECK(finished.err.find("keeps an in-memory checkpoint") == std::string::npos);
  }
}

TEST_CASE("a worker with an in-memory checkpoint waits cluster.rejoin_s, not --join-timeout") {
  FailedCoordinator failed_job({"--set", "cluster.rejoin_s=4"}, {"--join-timeout", "1"});
  failed_job.kill_coordinator_after("25");
  failed_job.kept_by(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  CHECK_FALSE(has_ended(failed_job.worker(0).process()));
  const Finished finished = failed_job.worker(0).wait();
  CHECK(finished.code == 2);
}

TEST_CASE("a checkpoint that cannot be written at the end loses no completed step of the daemons") {
  FailedCoordinator failed_job;
  const Json whole = failed_job.undisturbed();
  Program train =
      failed_job.cluster.train("run", {"--set", "train.steps=3000", "--set", "train.log_every=1"});
  REQUIRE(says(train, "step 40/"));
  const fs::path checkpoints = failed_job.cluster.job.folder / "run/checkpoints";
  fs::remove_all(checkpoints);
  failed_job.cluster.end(failed_job.worker(1));
  CHECK(train.wait().code == 3);
  const int64_t kept = failed_job.kept_by(0);
  fs::create_directories(checkpoints);
  failed_job.cluster.start("poseidon-worker", "worker-c");
  const Finished finished = failed_job.resume();
  check_same(finished, whole);
  CHECK(Json::parse(finished.out)["first_step"] == kept + 1);
}
