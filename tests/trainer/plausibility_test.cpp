#include "trainer/job/plausibility.h"

#include <doctest/doctest.h>

#include "tests/trainer/tiny_job.h"
#include "trainer/job/job_numbers.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

using Lines = std::vector<std::string>;

/// Description of an image data set, as a rule gets it.
data::DatasetDescription pixels(int64_t samples, const std::string& fingerprint) {
  data::DatasetDescription known;
  known.samples = samples;
  known.classes = {"airplane", "cat", "truck"};
  known.fingerprint = fingerprint;
  return known;
}

/// The warnings for the tiny job with overrides, without the path of its files.
struct Doubtful {
  explicit Doubtful(const std::string& layers = "") {
    const std::string head =
        R"({"name": "n", "input": {"channels": 2, "height": 6, "width": 6}, "layers": [)";
    if (!layers.empty()) write_text(files.folder / "tiny_network.json", head + layers + "]}");
  }

  Lines lines(const std::vector<std::string>& overrides = {}) const {
    const Job job = files.load(overrides);
    RunFacts facts{.job = job, .data = data, .has_weights = has_weights};
    if (resumed.step > 0) facts.resumed = resumed;
    Lines found = doubtful_settings(facts);
    for (std::string& line : found) line.erase(0, files.folder.string().size() + 1);
    return found;
  }

  TinyJob files;
  KnownData data{.train = pixels(50, "a"), .test = pixels(21, "b")};
  bool has_weights = false;
  ResumedAt resumed;
};

constexpr const char* kHead = R"({"name": "ip", "type": "linear", "outputs": 3},)";
constexpr const char* kLoss = R"({"name": "loss", "type": "softmax_loss"})";

}  // namespace

TEST_CASE("a plausible job causes no warning") { CHECK(Doubtful().lines() == Lines{}); }

TEST_CASE("doubtful: mean and deviation of pixels from 0 to 1") {
  const Doubtful job;
  CHECK(job.lines({"data.train.transform={\"mean\": [0.485, 0.456], \"std\": [0.229, 0.224]}"}) ==
        Lines{"job.json: /data/train/transform/mean: mean 0.485: pixels run from 0 to 255, did you "
              "mean 123.7?",
              "job.json: /data/train/transform/std: std 0.229: pixels run from 0 to 255, did you "
              "mean 58.4?"});
  CHECK(job.lines({"data.test.transform={\"mean\": 0.1307}"})[0].starts_with(
      "job.json: /data/test/transform/mean: mean 0.1307: pixels"));
  // Deviations apply after the scale, but means apply before it.
  CHECK(job.lines({"data.train.transform={\"scale\": 0.00392, \"std\": 0.229}"}) == Lines{});
  CHECK(job.lines({"data.train.transform={\"scale\": 0.00392, \"mean\": 0.485}"}).size() == 1);
  CHECK(job.lines({"data.train.transform={\"mean\": [0, 0], \"std\": [1, 1]}"}) == Lines{});
  CHECK(job.lines({"data.train.transform={\"mean\": 123.7, \"std\": 58.4}"}) == Lines{});
}

TEST_CASE("doubtful: pixels that are scaled to 0 to 1 and divided by a deviation of 0 to 255") {
  CHECK(Doubtful().lines({"data.train.transform={\"scale\": 0.003922, \"std\": 58.4}"}) ==
        Lines{"job.json: /data/train/transform/scale: scale 0.003922 and std 58.4 map pixels of 0 "
              "to 255 to a range of 0.01713; expected only one of the two, or a std for pixels of "
              "0 to 1"});
}

TEST_CASE("doubtful: float samples may have any range, so there is no warning") {
  Doubtful job;
  job.data.train->floats = job.data.test->floats = true;
  CHECK(job.lines({"data.train.transform={\"mean\": 0.5, \"std\": 0.2}"}) == Lines{});
}

TEST_CASE("doubtful: a test set with another transform than the training set") {
  CHECK(
      Doubtful().lines({"data.test.transform={\"scale\": 0.02}"}) ==
      Lines{"job.json: /data/test/transform/scale: differs from the training set's \"scale\": the "
            "network is tested on values unlike those that it is trained on; expected the same"});
}

TEST_CASE("doubtful: tests on the training set") {
  Doubtful job;
  job.data.test->fingerprint = "a";
  const Lines expected{
      "job.json: /data/test: holds the samples of the training set, so its accuracy does not "
      "measure generalization; expected other samples"};
  CHECK(job.lines() == expected);
  job.data = {};
  CHECK(job.lines({"data.test.seed=1", "data.test.samples=50"}) == expected);
  CHECK(job.lines({"data.test.seed=1"}) == Lines{});
}

TEST_CASE("doubtful: a batch larger than the training set") {
  Doubtful job;
  job.data.train->samples = 3;
  CHECK(job.lines({"data.batch_per_worker=64"}) ==
        Lines{"job.json: /data/batch_per_worker: a batch of 64 holds each of the 3 samples of the "
              "training set several times: 1 step is 21.33 epochs; expected at most 3"});
}

TEST_CASE("doubtful: zero weights that block the layers before or after them") {
  const std::string zeros = R"("weight_filler": {"type": "constant"})";
  Doubtful job(R"({"name": "conv", "type": "convolution", "outputs": 2, "kernel": 3, )" + zeros +
               R"(}, {"name": "relu", "type": "relu"}, {"name": "ip", "type": "linear",
               "outputs": 3, )" +
               zeros + "}, " + kLoss);
  CHECK(
      job.lines() ==
      Lines{
          "tiny_network.json: /layers: all weights of conv are initially 0, so all outputs of such "
          "a layer are equal and stay equal; expected a \"weight_filler\" such as xavier or he"});
  job.has_weights = true;
  CHECK(job.lines() == Lines{});
  // A last layer of zeros can learn, and also a branch of zeros if the other branch has values.
  CHECK(Doubtful(R"({"name": "ip", "type": "linear", "outputs": 3, )" + zeros + "}, " + kLoss)
            .lines() == Lines{});
  CHECK(Doubtful(R"({"name": "a", "type": "convolution", "outputs": 2, "kernel": 1, )" + zeros +
                 R"(}, {"name": "sum", "type": "eltwise", "inputs": ["a", "input"]},)" + kHead +
                 kLoss)
            .lines() == Lines{});
}

TEST_CASE("doubtful: batch norm of one value") {
  const std::string layers = std::string(kHead) +
                             R"({"name": "norm", "type": "batch_norm"}, {"name": "ip2",
      "type": "linear", "outputs": 3},)" +
                             kLoss;
  const Doubtful job(layers);
  CHECK(job.lines() == Lines{});
  CHECK(job.lines({"data.batch_per_worker=4", "cluster.logical_shards=4"}) ==
        Lines{"tiny_network.json: batch_norm \"norm\" normalizes 1 value per channel in a shard of "
              "1 sample (a batch of 4 in 4 logical shards), so its output does not depend on its "
              "input: layers before it cannot learn; expected a larger data.batch_per_worker or "
              "fewer cluster.logical_shards"});
}

TEST_CASE("doubtful: a softmax before a softmax loss") {
  const Doubtful job(std::string(kHead) + R"({"name": "prob", "type": "softmax"},)" + kLoss);
  CHECK(job.lines() == Lines{"tiny_network.json: softmax_loss \"loss\" reads softmax \"prob\": "
                             "softmax_loss itself computes softmax, and computing it twice slows "
                             "learning; expected the input of softmax \"prob\""});
}

TEST_CASE("doubtful: layers that no layer reads") {
  const std::string layers = std::string(kHead) + kLoss;
  const Doubtful job(layers + R"(, {"name": "prob", "type": "softmax", "input": "ip"})");
  CHECK(job.lines() == Lines{"tiny_network.json: /layers: no layer reads the output of prob, "
                             "though each step computes it; remove the layer, or set \"phase\": "
                             "\"test\" if it is an output of the network"});
  const Doubtful output(layers +
                        R"(, {"name": "prob", "type": "softmax", "input": "ip", "phase": "test"},
      {"name": "hits", "type": "accuracy", "input": "ip"})");
  CHECK(output.lines() == Lines{});
}

TEST_CASE("doubtful: the top 5 of 3 classes, and a dropout of 95 %") {
  const Doubtful job(std::string(kHead) +
                     R"({"name": "drop", "type": "dropout", "probability": 0.95},)" + kLoss +
                     R"(, {"name": "hits", "type": "accuracy", "input": "ip", "top_k": [1, 5]})");
  CHECK(job.lines() == Lines{"tiny_network.json: accuracy \"hits\" reports the top 5 of 3 classes, "
                             "which is always 100 %; expected a smaller \"top_k\"",
                             "tiny_network.json: dropout \"drop\" drops 95 % of its input; a "
                             "probability of 0.5 is usual"});
}

TEST_CASE("doubtful: a learning rate of 0") {
  CHECK(Doubtful().lines({"optimizer.learning_rate=0"}) ==
        Lines{"job.json: /optimizer/learning_rate: is 0: nothing is learned"});
  const Doubtful job(R"({"name": "ip", "type": "linear", "outputs": 3,
                         "learning_rate_multipliers": [0, 0]},)" +
                     std::string(kLoss));
  CHECK(job.lines() == Lines{"tiny_network.json: /layers: all \"learning_rate_multipliers\" are 0: "
                             "nothing is learned"});
}

TEST_CASE("doubtful: warm-up, test and checkpoint intervals beyond the end of the job") {
  const Doubtful job;
  CHECK(
      job.lines({"optimizer.schedule={\"warmup\": 50}", "train.test_every=100",
                 "train.checkpoint_every=20"}) ==
      Lines{"job.json: /optimizer/schedule/warmup: a warm-up of 50 steps, but the job ends after 9 "
            "steps: the full learning rate is never reached",
            "job.json: /train/checkpoint_every: is 20, but the job ends after step 9: the only "
            "checkpoint is that of the end",
            "job.json: /train/test_every: is 100, but the job ends after step 9: the only test is "
            "that of the end"});
  const std::string milestones = "\"milestones\": [1, 12], \"type\": \"multistep\"";
  CHECK(job.lines({"optimizer.schedule={" + milestones + "}"}) ==
        Lines{"job.json: /optimizer/schedule/milestones: 12 is never reached: the job ends after 9 "
              "steps"});
  // 9 steps of 8 samples are 1.44 epochs of 50 samples.
  CHECK(job.lines({"optimizer.schedule={\"unit\": \"epochs\", " + milestones + "}"}) ==
        Lines{"job.json: /optimizer/schedule/milestones: 12 is never reached: the job ends after "
              "1.44 epochs"});
  CHECK(
      job.lines({"optimizer.schedule={\"type\": \"step\", \"step_size\": 9}"}) ==
      Lines{"job.json: /optimizer/schedule/step_size: 9 steps, but the job ends after 9 steps: the "
            "learning rate never falls"});
  CHECK(job.lines({"data.test=null", "train.test_every=2"}) ==
        Lines{"job.json: /train/test_every: is 2, but there is no test set: expected data.test"});
}

TEST_CASE("doubtful: a learning rate that jumps when a finished job is extended") {
  Doubtful job;
  job.resumed = {.step = 9, .learning_rate = 0};
  CHECK(job.lines({"train.steps=18"}) ==
        Lines{"job.json: /optimizer: the learning rate jumps from 0 to 0.03273 at step 10 of 18, "
              "because the job or its schedule was changed since the checkpoint; a smaller "
              "optimizer.learning_rate avoids it"});
  job.resumed = {.step = 4, .learning_rate = 0.048};
  CHECK(job.lines() == Lines{});
}

TEST_CASE("the line of numbers states samples, classes, parameters and steps per epoch") {
  const Doubtful job;
  const Job loaded = job.files.load({"data.batch_per_worker=100"});
  KnownData data{.train = pixels(50000, "a"), .test = pixels(10000, "b")};
  CHECK(job_in_numbers(loaded, data) ==
        "50,000 samples of 3 classes (airplane ... truck), 10,000 for tests; 343 parameters are "
        "trained, none frozen; 500 steps per epoch");
  data.train->samples = 1050;
  data.train->classes = {"cat", "dog"};
  data.test.reset();
  CHECK(
      job_in_numbers(loaded, data) ==
      "1,050 samples of 2 classes (cat, dog); 343 parameters are trained, none frozen; 10.5 steps "
      "per epoch");
  CHECK(job_in_numbers(loaded, {}) == "343 parameters are trained, none frozen");
}
