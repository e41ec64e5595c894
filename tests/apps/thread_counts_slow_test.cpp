// Results do not depend on the number of compute threads.

#include <doctest/doctest.h>

#include "core/json.h"
#include "tests/apps/processes.h"
#include "tests/support/folders.h"
#include "tests/support/nightly.h"

using namespace poseidon;
using namespace poseidon::apps;

namespace {

/// SHA-256 of the whole state after three steps.
std::string state_with(int threads, const std::string& job, const std::string& precision) {
  const trainer::TinyJob files;  // for its folder
  const auto run = files.folder / "run";
  const Finished finished =
      Program(
          "poseidon-train",
          {test::source_folder() + "/configs/" + job + ".json", "--threads",
           std::to_string(threads), "--max-steps", "3", "--set", "data.batch_per_worker=5", "--set",
           "data.test=null", "--set", "device.precision=" + precision, "--output", run.string()},
          files.folder)
          .wait();
  CAPTURE(finished.err);
  REQUIRE(finished.code == 0);
  return Json::parse(trainer::read_text(run / "summary.json"))["state_sha256"].get<std::string>();
}

void check_threads(const std::string& job) {
  for (const char* precision : {"fp32", "bf16"}) {
    CAPTURE(job);
    CAPTURE(precision);
    const std::string one = state_with(1, job, precision);
    for (const int threads : {2, 3}) CHECK(state_with(threads, job, precision) == one);
  }
}

}  // namespace

TEST_CASE("any number of threads trains the same bits: LeNet and cifar10_quick") {
  check_threads("lenet-digits");
  check_threads("cifar10_quick-random");
}

TEST_CASE("any number of threads trains the same bits: large networks" *
          poseidon::test::nightly()) {
  for (const char* job : {"alexnet-random", "vgg11-random", "googlenet-random", "resnet50-random",
                          "mobilenet_v2-random", "efficientnet_b0-random", "inception_v3-random"})
    check_threads(job);
}
