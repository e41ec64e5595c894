// Jobs whose networks have auxiliary inputs.

#include <doctest/doctest.h>

#include "tests/support/guarded_device.h"
#include "tests/trainer/made_training.h"
#include "tests/trainer/small_networks.h"
#include "tests/trainer/tiny_job.h"
#include "trainer/inference/classify.h"
#include "trainer/inference/extract.h"
#include "trainer/inference/test.h"
#include "trainer/step/evaluation.h"

using namespace poseidon;
using namespace poseidon::trainer;

TEST_CASE("a network learns from its auxiliary inputs") {
  const TinyJob job(kTwoInputs);
  const std::vector<std::string> words =
      with_extras({"train.steps=200", "data.train.samples=16", "optimizer.learning_rate=0.1",
                   "train.log_every=1"});
  job.run("run", words);
  const std::vector<double> losses = losses_of(job.folder / "run");
  CHECK(losses.back() < losses.front() / 2);
}

TEST_CASE("auxiliary inputs: the same bits with any number of loader threads and after a resume") {
  const TinyJob job(kTwoInputs);
  const Json whole = job.run("whole", with_extras({"train.test_every=4"}));
  const Json threads = job.run("threads", with_extras({"data.loader_threads=4"}));
  CHECK(threads["state_sha256"] == whole["state_sha256"]);
  CHECK(threads["test_loss"] == whole["test_loss"]);
  job.run("parts", with_extras(), {.max_steps = 4});
  const Json resumed = job.run("", with_extras(), {.resume = job.folder / "parts"});
  CHECK(resumed["state_sha256"] == whole["state_sha256"]);
  Console console(Console::Mode::kSilent);
  const Job tested = job.load(with_extras());
  const Json result = trainer::test(tested, {.resume = job.folder / "whole"}, console);
  CHECK(result["loss"].get<double>() ==
        doctest::Approx(whole["test_loss"].get<double>()).epsilon(1e-6));
  const Json features = extract(tested, {.resume = job.folder / "whole"}, {"where"},
                                job.folder / "features", console);
  CHECK(features["layers"][0] == Json{{"name", "where"}, {"shape", {21, 3, 1, 1}}});
}

TEST_CASE("auxiliary inputs: a guarded device gives the bits of the CPU") {
  const TinyJob tiny(kTwoInputs);
  const Job job = tiny.load(with_extras({"cluster.logical_shards=2"}));
  const net::Net::Options two_versions{.versions = 2};
  Training open(job, two_versions);
  Training guarded(testing::make_guarded_backend(), job, two_versions);
  SilentLog log;
  const PreparedData data = open_test_data(job, open.data, log);
  for (int step = 0; step < 4; ++step) {
    CHECK(guarded.loop.step().mean.loss == open.loop.step().mean.loss);
    open.loop.drain();
    guarded.loop.drain();
    CHECK(evaluate(guarded.engine.net(), data, {.seed = 3}, log)->mean.loss ==
          evaluate(open.engine.net(), data, {.seed = 3}, log)->mean.loss);
  }
  CHECK(guarded.state() == open.state());
}

TEST_CASE("auxiliary inputs: mixup mixes them, and cutmix is refused") {
  const TinyJob job(R"({
    "name": "n", "input": {"channels": 2, "height": 6, "width": 6},
    "inputs": [{"name": "pose", "shape": [4]}],
    "layers": [
      {"name": "a", "type": "linear", "outputs": 3},
      {"name": "b", "type": "linear", "input": "pose", "outputs": 3},
      {"name": "sum", "type": "eltwise", "inputs": ["a", "b"]},
      {"name": "loss", "type": "softmax_loss"}]})");
  const auto words = [](const char* mix) {
    return with_extras({std::string("data.train.transform.mix=") + mix});
  };
  const Json plain = job.run("plain", with_extras());
  const Json mixed = job.run("mixed", words(R"({"mixup": 0.4})"));
  CHECK(mixed["weights_sha256"] != plain["weights_sha256"]);
  CHECK(error_of<ConfigError>([&] { job.run("cut", words(R"({"mixup": 0.4, "cutmix": 0.5})")); })
            .ends_with(": /data/train/transform/mix/cutmix: expected 0, because CutMix cannot cut "
                       "the auxiliary inputs of network \"n\" (mixup can mix them), got 0.5"));
}

TEST_CASE("auxiliary inputs: data without them are refused, and the message names both files") {
  const TinyJob job(kTwoInputs);
  const std::string file = (job.folder / "job.json").string(),
                    network = (job.folder / "tiny_network.json").string();
  const auto refused = [&](const std::vector<std::string>& words) {
    return error_of<ConfigError>([&] { job.run("run", words); });
  };
  CHECK(refused({}) == file +
                           ": /data/train: random (generated): expected an extra \"map\" of shape "
                           "2x6x6 for the network input of that name, got none (" +
                           network + ": /inputs)");
  CHECK(refused({R"(data.train.extras=[{"name": "map", "shape": [72]}])"}) ==
        file +
            ": /data/train: random (generated): extra \"map\": expected shape 2x6x6 for the "
            "network input of that name, got 72 (" +
            network + ": /inputs)");
  CHECK(refused({R"(data.test.extras=[{"name": "map", "shape": [2, 6]}])"}) ==
        "--set data.test.extras=[{\"name\": \"map\", \"shape\": [2, 6]}]: expected [channels, "
        "height, "
        "width] or [values], got 2 numbers");
}

TEST_CASE("auxiliary inputs: --classify of image files is refused") {
  const TinyJob job(kTwoInputs);
  job.run("run", with_extras());
  SilentLog log;
  CHECK(error_of<ConfigError>([&] {
          classify(job.load(with_extras()), {.resume = job.folder / "run"}, {"a.png"}, log);
        }) ==
        "--classify: expected a network that reads only images, got \"two-inputs\", which has "
        "auxiliary inputs: map 2x6x6, pose 4");
}
