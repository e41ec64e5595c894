// Daemons keep the last complete step of a run whose coordinator is gone: who goes on with the run
// has lost nothing.

#include "tests/apps/lost_coordinator.h"

using namespace poseidon;
using namespace poseidon::apps;
namespace fs = std::filesystem;

TEST_CASE("a coordinator that is killed without a checkpoint loses no step of its daemons") {
  LostCoordinator lost;
  const Json whole = lost.undisturbed();
  lost.kill_coordinator_after("40");
  const int64_t kept = std::max(lost.kept_by(0), lost.kept_by(1));
  // A step is told when it is computed; its sums may still be under way.
  CHECK(kept >= 39);
  const Finished finished = lost.resume();
  check_same(finished, whole);
  CHECK(finished.err.find("has no checkpoint yet") != std::string::npos);
  CHECK(finished.err.find(" has kept step " + std::to_string(kept) + ": fetched") !=
        std::string::npos);
  const Json summary = Json::parse(finished.out);
  CHECK(summary["first_step"] == kept + 1);
  REQUIRE(summary["sessions"].size() == 2);
  CHECK(summary["sessions"][0]["first_step"] == 1);
  CHECK(summary["sessions"][0]["how"] == "interrupted");
  CHECK(summary["sessions"][1]["how"] == "finished");
  CHECK(fs::exists(lost.cluster.job.folder / "run/checkpoints" /
                   ("step-" + std::to_string(kept) + ".state")));
}
