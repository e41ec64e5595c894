// Daemons keep the last complete step of a run in memory after its coordinator has failed. A
// resumed run must lose no step.

#include <sstream>

#include "tests/apps/failed_coordinator.h"
#include "tests/support/sanitizers.h"

using namespace poseidon;
using namespace poseidon::apps;
namespace fs = std::filesystem;

TEST_CASE("a coordinator that is killed without a checkpoint loses no step of its daemons") {
  FailedCoordinator failed_job;
  const Json whole = failed_job.undisturbed();
  failed_job.kill_coordinator_after("40");
  const int64_t kept = std::max(failed_job.kept_by(0), failed_job.kept_by(1));
  // A step is reported when its gradients are computed. Its sums may still be in transit.
  CHECK(kept >= 39);
  const Finished finished = failed_job.resume();
  check_same(finished, whole);
  CHECK(finished.err.find("has no checkpoint yet") != std::string::npos);
  CHECK(finished.err.find("fetched the in-memory checkpoint of step " + std::to_string(kept) +
                          " from worker ") != std::string::npos);
  const Json summary = Json::parse(finished.out);
  CHECK(summary["first_step"] == kept + 1);
  REQUIRE(summary["sessions"].size() == 2);
  CHECK(summary["sessions"][0]["first_step"] == 1);
  CHECK(summary["sessions"][0]["how"] == "interrupted");
  CHECK(summary["sessions"][1]["how"] == "finished");
  CHECK(fs::exists(failed_job.cluster.job.folder / "run/checkpoints" /
                   ("step-" + std::to_string(kept) + ".state")));
}

namespace {

/// All lines of a run's metrics in order: type and step, like "train 4", with the loss.
std::vector<std::pair<std::string, Json>> lines_of(const fs::path& run) {
  std::vector<std::pair<std::string, Json>> lines;
  std::istringstream text(trainer::read_text(run / "metrics.jsonl"));
  for (std::string line; std::getline(text, line);) {
    const Json json = Json::parse(line);
    lines.emplace_back(json["type"].get<std::string>() + " " + json["step"].dump(), json["loss"]);
  }
  return lines;
}

}  // namespace

TEST_CASE("steps and tests that daemons completed without the coordinator have their lines") {
  const Words settings{"--set", "train.test_every=20",
                       "--set", test::kShortTimeout,
                       "--set", test::kIsSanitized ? "train.steps=1500" : "train.steps=6000",
                       "--set", "train.checkpoint_every=100000"};
  FailedCoordinator failed_job(settings);
  const Json whole = failed_job.undisturbed();
  {
    Program train = failed_job.start_until("40");
    // The stopped coordinator reads nothing. The daemons continue until its heartbeats time out.
    train.send(SIGSTOP);
    for (const int worker : {0, 1}) failed_job.kept_by(worker);
    train.send(SIGKILL);
    train.wait();
  }
  const Finished finished = failed_job.resume();
  check_same(finished, whole);
  CHECK(finished.err.find("from the reports that the workers kept") != std::string::npos);
  const auto lines = lines_of(failed_job.cluster.job.folder / "run");
  const auto expected = lines_of(failed_job.cluster.job.folder / "whole");
  REQUIRE(lines.size() == expected.size());
  for (size_t i = 0; i < lines.size(); ++i) REQUIRE(lines[i] == expected[i]);
}
