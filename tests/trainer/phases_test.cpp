// Jobs whose networks have layers for training only and for tests only.

#include <doctest/doctest.h>

#include <functional>

#include "tests/trainer/small_networks.h"
#include "tests/trainer/tiny_job.h"
#include "trainer/inference/extract.h"
#include "trainer/inference/test.h"
#include "trainer/inference/trained_net.h"
#include "trainer/plan/sync_plan.h"
#include "trainer/state/safetensors.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

/// The job's network after a change of its layers.
std::string changed(const std::function<void(Json& layers)>& change) {
  Json network = Json::parse(kPhased);
  change(network["layers"]);
  return network.dump();
}

/// The network without its test layers. Its training layers exist in both phases.
std::string training_alone() {
  return changed([](Json& layers) {
    Json left = Json::array();
    for (Json layer : layers) {
      if (layer.value("phase", "") == "test") continue;
      layer.erase("phase");
      left.push_back(std::move(layer));
    }
    layers = left;
  });
}

/// The lines of a run's metrics with this type.
std::vector<Json> lines_of(const fs::path& run, const std::string& type) {
  std::ifstream file(run / "metrics.jsonl");
  std::vector<Json> lines;
  for (std::string line; std::getline(file, line);)
    if (Json json = Json::parse(line); json["type"] == type) lines.push_back(std::move(json));
  return lines;
}

std::vector<std::string> names_in(const fs::path& weights) {
  const SafetensorsFile file(weights);
  std::vector<std::string> names;
  for (const auto& entry : file.entries()) names.push_back(entry.name);
  return names;
}

/// Console output of a test.
std::string said_of_test(const Job& job, const fs::path& run) {
  std::string said;
  class Words final : public Log {
   public:
    explicit Words(std::string& words) : words_(words) {}
    void info(std::string_view) override {}
    void warning(std::string_view message) override { words_ += message; }

   private:
    std::string& words_;
  } log(said);
  TrainedNet(job, {.resume = run}, {}, log);
  return said;
}

}  // namespace

TEST_CASE("phases: training runs the layers of phase train, and tests run those of phase test") {
  const TinyJob job(kPhased), alone(training_alone().c_str());
  const std::vector<std::string> often{"train.test_every=2", "train.log_every=1"};
  const Json summary = job.run("run", often), same = alone.run("run", often);
  CHECK(summary["weights_sha256"] == same["weights_sha256"]);
  CHECK(summary["state_sha256"] == same["state_sha256"]);
  CHECK(summary["train_loss"] == same["train_loss"]);
  CHECK(summary["test_loss"] < same["test_loss"]);  // without the loss of the training head

  for (const Json& line : lines_of(job.folder / "run", "train")) {
    CHECK(line.contains("aux/loss"));
    CHECK_FALSE(line.contains("top2"));
  }
  const std::vector<Json> tests = lines_of(job.folder / "run", "test");
  REQUIRE(tests.size() == 5);
  for (const Json& line : tests) {
    CHECK_FALSE(line.contains("aux/loss"));
    CHECK(line["loss/loss"] == line["loss"]);
    CHECK(line["top2/top2"] == line["top2"]);
    CHECK(line["top2"] >= line["top1"]);
  }
  CHECK(tests.back()["top1"] == summary["test_top1"]);
  CHECK(names_in(summary["checkpoint"].get<std::string>()) ==
        names_in(same["checkpoint"].get<std::string>()));
}

TEST_CASE("phases: --test gives the result of the run's test, without a warning") {
  for (const char* decay : {"0", "0.9"}) {
    const std::vector<std::string> words{std::string("optimizer.average_decay=") + decay};
    const TinyJob job(kPhased);
    const Json summary = job.run("run", words);
    Console console(Console::Mode::kSilent);
    const Json result = test(job.load(words), {.resume = job.folder / "run"}, console);
    CHECK(result["top1"] == summary["test_top1"]);
    CHECK(result["loss"].get<double>() ==
          doctest::Approx(summary["test_loss"].get<double>()).epsilon(1e-6));
    CHECK(result.contains("top2"));
    CHECK(said_of_test(job.load(words), job.folder / "run").empty());
  }
}

TEST_CASE("phases: a run can be stopped and resumed") {
  const TinyJob job(kPhased);
  const std::vector<std::string> often{"train.test_every=2"};
  const Json whole = job.run("whole", often);
  job.run("parts", often, {.max_steps = 4});
  const Json resumed = job.run("", often, {.resume = job.folder / "parts"});
  CHECK(resumed["state_sha256"] == whole["state_sha256"]);
  CHECK(resumed["test_loss"] == whole["test_loss"]);
}

TEST_CASE("phases: --extract accepts only layers of phase test") {
  const TinyJob job(kPhased);
  job.run("run");
  Console console(Console::Mode::kSilent);
  const auto take = [&](const std::string& layer) {
    return extract(job.load(), {.resume = job.folder / "run"}, {layer}, job.folder / layer,
                   console);
  };
  CHECK(take("prob")["layers"][0] == Json{{"name", "prob"}, {"shape", {21, 3, 1, 1}}});
  CHECK(error_of<ConfigError>([&] { take("aux_ip"); }) ==
        "--extract: expected layers that are in phase \"test\", got \"aux_ip\", which is only in "
        "training");
}

TEST_CASE("phases: only trained layers are summed, and a network without a test loss is refused") {
  const TinyJob job(kPhased);
  std::vector<std::string> summed;
  for (const comm::LayerTraffic& layer : layer_traffic(*job.load().network))
    summed.push_back(layer.name);
  CHECK(summed == std::vector<std::string>{"conv", "bn", "aux_ip", "ip"});
  const TinyJob untested(changed([](Json& layers) { layers.back()["phase"] = "train"; }).c_str());
  CHECK(error_of<ConfigError>([&] {
          untested.load();
        }).ends_with(": /layers: a network that is tested needs a loss in phase \"test\" too"));
  CHECK(untested.load({"data.test=null"}).network->has_loss());
}
