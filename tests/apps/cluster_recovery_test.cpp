// A job of real processes continues after a node failure. The result must equal that of an
// undisturbed job.

#include <doctest/doctest.h>

#include "tests/apps/cluster.h"
#include "tests/apps/recovery_rounds.h"
#include "tests/support/sanitizers.h"

using namespace poseidon;
using namespace poseidon::apps;

namespace {

/// Long enough for a fault during the job, and short enough for a test.
constexpr int kSteps = test::kIsSanitized ? 600 : 2000;
/// poseidon-train prints this after step 20. A fixed delay may end before the second step.
const std::string kIsTraining = "step 20/";

void goes_on_without(const std::string& target, const std::string& scheme) {
  const RecoveryJob job(kSteps, scheme);
  const Json undisturbed = job.undisturbed();
  RecoveryRound round(job, undisturbed, "one");
  CHECK(round.go({{.target = target, .after_line = kIsTraining}}) == "");
  const Json views = round.summary()["views"];
  CAPTURE(views.dump());
  REQUIRE(views.size() == 2);
  REQUIRE(views[1]["lost"].size() == 1);
  CHECK(views[1]["lost"][0].get<std::string>().starts_with(target + " (127.0.0.1:"));
  CHECK(views[1]["first_step"].get<int>() > 1);
  CHECK(views[1]["replayed_steps"].get<int>() <= 2);
  CHECK(views[1]["lost_s"].get<double>() < 10);
  const Json& losses = round.summary()["losses"];
  REQUIRE(losses.size() == 1);
  CHECK(losses[0]["who"] == target);
  CHECK(losses[0]["view"] == 1);
  CHECK(losses[0]["why"] == views[1]["lost"][0]);
  CHECK(losses[0]["at_s"].get<double>() < round.summary()["wall_seconds"].get<double>());
  CHECK(round.summary()["replayed_steps"] == views[1]["replayed_steps"]);
  CHECK(round.summary()["lost_s"] == views[1]["lost_s"]);
}

}  // namespace

TEST_CASE("a job continues after the worker that sends its checkpoints fails") {
  goes_on_without("worker 0", "auto");
}

TEST_CASE("a job continues after a server fails, and the other server sums its chunks") {
  goes_on_without("server 0", "ps");
}

TEST_CASE("a job with sfb continues after a worker fails") { goes_on_without("worker 1", "sfb"); }

TEST_CASE("fewer workers than cluster.min_workers end the job with the last complete step saved") {
  const RecoveryJob job(100000);
  const std::filesystem::path run = job.job.folder / "run";
  std::vector<std::string> words = job.words(3, run);
  words.insert(words.end(), {"--set", "cluster.min_workers=3"});
  Program train("poseidon-train", words, job.job.folder);
  REQUIRE(says(train, kIsTraining));
  for (const Process& each : members_of(train.process(), run))
    if (each.name == "worker 2") kill(each.pid, SIGKILL);
  const Finished finished = train.wait();
  CAPTURE(finished.err);
  CHECK(finished.code == 3);
  CHECK(finished.err.find("worker 2 (127.0.0.1:") != std::string::npos);
  CHECK(finished.err.find("/checkpoints/step-") != std::string::npos);
}

TEST_CASE("cluster.min_workers above the number of workers is refused") {
  const RecoveryJob job(10);
  std::vector<std::string> words = job.words(3, job.job.folder / "run");
  words.insert(words.end(), {"--set", "cluster.min_workers=4"});
  const Finished finished = Program("poseidon-train", words, job.job.folder).wait();
  CHECK(finished.code == 2);
  CHECK(finished.err.find("--set cluster.min_workers=4: expected at most \"workers\" (3), got 4") !=
        std::string::npos);
}
