// EMA of parameters and statistics: its values, its use in tests, and its checkpoints.

#include "trainer/step/ema.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "tests/trainer/tiny_job.h"
#include "trainer/inference/test.h"
#include "trainer/state/safetensors.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

fs::path weights_of_step(const fs::path& run, int64_t step) {
  return run / "checkpoints" / text("step-", step, ".safetensors");
}

std::vector<float> read(const SafetensorsFile& file, const std::string& name) {
  const auto* entry = file.find(name);
  REQUIRE(entry != nullptr);
  return file.read(*entry);
}

/// Checks the EMA in the checkpoint of each step against the EMA computed from all steps before it.
void check_course(const TinyJob& job, std::vector<std::string> overrides, double decay) {
  overrides.push_back("train.checkpoint_every=1");
  overrides.push_back(text("optimizer.average_decay=", decay));
  job.run("course", overrides);
  std::map<std::string, std::vector<float>> averages;
  for (int64_t step = 0; step < 9; ++step) {
    const SafetensorsFile file(weights_of_step(job.folder / "course", step + 1));
    const auto rate =
        static_cast<float>(std::max(1 - decay, 10 / (10 + static_cast<double>(step))));
    for (const auto& entry : file.entries()) {
      if (entry.name.ends_with(".average")) continue;
      const std::vector<float> values = file.read(entry);
      std::vector<float>& average = averages[entry.name];
      if (step == 0) average.assign(values.size(), 0);
      for (size_t i = 0; i < values.size(); ++i) {
        const volatile float distance = values[i] - average[i];
        const volatile float move = rate * distance;
        average[i] += move;
      }
      CAPTURE(entry.name);
      CAPTURE(step);
      CHECK(read(file, entry.name + ".average") == average);
      if (step == 0) CHECK(average == values);
    }
  }
  fs::remove_all(job.folder / "course");
}

Json tested(const TinyJob& job, const RunOptions& options,
            const std::vector<std::string>& overrides) {
  Console console(Console::Mode::kSilent);
  return test(job.load(overrides), options, console);
}

/// Loss of each test of a run.
std::vector<double> test_losses(const fs::path& run) {
  std::vector<double> losses;
  std::istringstream in(read_text(run / "metrics.jsonl"));
  for (std::string line; std::getline(in, line);)
    if (const Json json = Json::parse(line); json["type"] == "test")
      losses.push_back(json["loss"].get<double>());
  return losses;
}

const std::string kDecay = "optimizer.average_decay=0.9";

}  // namespace

TEST_CASE("EMA follows every update at the stated rate, for parameters and statistics") {
  const TinyJob job;
  check_course(job, {}, 0.9);
  check_course(job, {}, 0.3);
  check_course(job, {"optimizer.type=adam", "cluster.logical_shards=4"}, 0.5);
  check_course(job, {"optimizer.type=lars"}, 0.5);
  check_course(job, {"optimizer.clip_norm=0.1", "device.indices=[0,0]"}, 0.5);
}

TEST_CASE("neither EMA nor tests with EMA change the training") {
  const TinyJob job;
  const Json without = job.run("without");
  const Json with = job.run("with", {kDecay});
  const Json often = job.run("often", {kDecay, "train.test_every=1"});
  CHECK(with["weights_sha256"] == without["weights_sha256"]);
  CHECK(with["train_loss"] == without["train_loss"]);
  CHECK(with["test_loss"] != without["test_loss"]);
  CHECK(with["state_sha256"] != without["state_sha256"]);
  CHECK(often["state_sha256"] == with["state_sha256"]);
  CHECK(often["test_loss"] == with["test_loss"]);
}

TEST_CASE("a stopped and resumed run has the EMA of an uninterrupted run") {
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {}, {"optimizer.type=adam", "comm.staleness=2"}, {"device.indices=[0,0]"}}) {
    const TinyJob job;
    std::vector<std::string> overrides = more;
    overrides.push_back(kDecay);
    overrides.push_back("cluster.logical_shards=4");
    const Json unbroken = job.run("unbroken", overrides);
    job.run("broken", overrides, {.max_steps = 4});
    const Json resumed = job.run("", overrides, {.resume = job.folder / "broken"});
    CHECK(resumed["state_sha256"] == unbroken["state_sha256"]);
    CHECK(resumed["test_loss"] == unbroken["test_loss"]);
  }
}

TEST_CASE("--test uses the EMA of a checkpoint or file, or its own values on request") {
  const TinyJob job;
  for (const char* precision : {"fp32", "bf16"}) {
    const std::vector<std::string> overrides{kDecay, "train.test_every=3",
                                             "train.checkpoint_every=3",
                                             std::string("device.precision=") + precision};
    const fs::path run = job.folder / precision;
    job.run(precision, overrides);
    const std::vector<double> losses = test_losses(run);
    REQUIRE(losses.size() == 3);
    for (const int64_t step : {3, 6, 9}) {
      const fs::path file = weights_of_step(run, step);
      const double loss = losses[static_cast<size_t>(step / 3 - 1)];
      CHECK(tested(job, {.weights = file}, overrides)["loss"] == loss);
      CHECK(tested(job, {.resume = fs::path(file).replace_extension(".state")},
                   overrides)["loss"] == loss);
    }
  }
  const Json own = job.run("own", {"train.checkpoint_every=3"});
  CHECK(tested(job, {.resume = job.folder / "fp32"}, {})["loss"] == own["test_loss"]);
  // A file without EMA is tested with its own values.
  CHECK(tested(job, {.resume = job.folder / "own"}, {kDecay})["loss"] == own["test_loss"]);
}

TEST_CASE("before the first update a test with EMA uses the initial values") {
  const TinyJob job;
  const std::vector<std::string> late{"comm.staleness=2", "train.test_every=1"};
  std::vector<std::string> with = late;
  with.push_back(kDecay);
  job.run("without", late, {.max_steps = 2});
  job.run("with", with, {.max_steps = 2});
  CHECK(test_losses(job.folder / "with") == test_losses(job.folder / "without"));
  const double loss = test_losses(job.folder / "with").back();
  CHECK(tested(job, {.resume = job.folder / "with"}, with)["loss"] == loss);
}

TEST_CASE("fine-tuning starts with a file's own values and restarts the EMA") {
  const TinyJob job;
  job.run("first", {kDecay});
  const fs::path file = weights_of_step(job.folder / "first", 9);
  const Json with = job.run("with", {kDecay}, {.weights = file});
  const Json without = job.run("without", {}, {.weights = file});
  CHECK(with["weights_sha256"] == without["weights_sha256"]);
  job.run("one", {kDecay}, {.weights = file, .max_steps = 1});
  const SafetensorsFile one(weights_of_step(job.folder / "one", 1));
  CHECK(read(one, "conv.weight.average") == read(one, "conv.weight"));
}

TEST_CASE("frozen parameters have no EMA, and tests use their own values") {
  std::string network = kTinyNetwork;
  const std::string key = "\"outputs\": 5,";
  network.insert(network.find(key) + key.size(), " \"learning_rate_multipliers\": [0],");
  const TinyJob job(network.c_str());
  const Json summary = job.run("run", {kDecay});
  const SafetensorsFile file(weights_of_step(job.folder / "run", 9));
  CHECK(file.find("conv.weight.average") == nullptr);
  CHECK(file.find("ip.weight.average") != nullptr);
  CHECK(file.find("bn.running_var.average") != nullptr);
  CHECK(tested(job, {.resume = job.folder / "run"}, {kDecay})["loss"] == summary["test_loss"]);
}

TEST_CASE("a checkpoint without EMA is refused by a job with EMA") {
  const TinyJob job;
  job.run("run", {}, {.max_steps = 3});
  const std::string error =
      error_of<ConfigError>([&] { job.run("", {kDecay}, {.resume = job.folder / "run"}); });
  CHECK(error.find("conv.weight.average") != std::string::npos);
}
