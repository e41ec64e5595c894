// The quick start's job: LeNet learns generated digits within seconds.

#include <doctest/doctest.h>

#include "tests/support/folders.h"
#include "tests/support/nightly.h"
#include "tests/trainer/tiny_job.h"

using namespace poseidon;
using namespace poseidon::trainer;

TEST_CASE("LeNet learns the generated digits in 300 steps, also with two shards and with bf16") {
  const TinyJob folder;
  for (const std::string change :
       {"cluster.logical_shards=1", "cluster.logical_shards=2", "device.precision=bf16"}) {
    CAPTURE(change);
    SilentLog log;
    const Job job = load_job({.file = fs::path(test::source_folder()) / "configs/lenet-digits.json",
                              .overrides = {"train.steps=300", change}},
                             log);
    Console console(Console::Mode::kSilent);
    const Json summary = train(job, {.output = folder.folder / change}, console);
    CHECK(summary["test_top1"].get<double>() > 0.98);
  }
}

TEST_CASE("a siamese LeNet learns which digits are alike" * poseidon::test::nightly()) {
  const TinyJob folder;
  Json job = read_json(fs::path(test::source_folder()) / "configs/lenet-siamese-mnist.json");
  job["network"] = test::source_folder() + "/configs/networks/lenet-siamese.json";
  for (const char* split : {"train", "test"}) {
    Json& data = job["data"][split];
    data["type"] = "digits";
    data["samples"] = std::string(split) == "train" ? 10000 : 1000;
    data.erase("path");
  }
  job["train"] = {{"steps", 300}, {"seed", 1}};
  write_text(folder.folder / "job.json", job.dump());
  const Json summary = folder.run("run");
  // A constant distance has a loss of 1/4, whether it is the margin or zero.
  CHECK(summary["test_loss"].get<double>() < 0.06);
}
