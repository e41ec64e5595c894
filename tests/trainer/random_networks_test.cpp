// Random networks and jobs compared with PyTorch: the losses of five steps and of the final test.
// tests/reference/soak_networks.py wrote the cases and losses. It can train any number of further
// cases.

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/folders.h"
#include "tests/trainer/tiny_job.h"

using namespace poseidon;
using namespace poseidon::trainer;

TEST_CASE("random networks have PyTorch's losses in double precision") {
  const Json cases = Json::parse(
      read_text(fs::path(test::source_folder()) / "tests/reference/golden/networks.json"));
  REQUIRE(cases.size() == 20);
  for (const Json& one : cases) {
    CAPTURE(one["seed"].get<int>());
    const TinyJob job;
    write_text(job.folder / "network.json", one["network"].dump());
    write_text(job.folder / "job.json", one["job"].dump());
    job.run("run");
    const std::vector<double> losses = losses_of(job.folder / "run");
    REQUIRE(losses.size() == one["losses"].size());
    for (size_t step = 0; step < losses.size(); ++step) {
      const auto expected = one["losses"][step].get<double>();
      CAPTURE(expected);
      CHECK(std::abs(losses[step] - expected) <= one["tolerance"][step].get<double>());
    }
    const double test_loss =
        Json::parse(read_text(job.folder / "run" / "summary.json"))["test_loss"].get<double>();
    CHECK(std::abs(test_loss - one["test_loss"].get<double>()) <=
          one["test_tolerance"].get<double>());
  }
}
