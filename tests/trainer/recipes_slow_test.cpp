// Every shipped job trains: three steps of two samples each, on random images. The losses must be
// in the range of an untrained network.

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/folders.h"
#include "tests/support/nightly.h"
#include "tests/trainer/tiny_job.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

const fs::path kConfigs = fs::path(test::source_folder()) / "configs";
constexpr int64_t kBatch = 2;

/// Random images with the shape of the network's data set, cropped and mirrored as in the job.
/// Values have mean 0 and deviation 1, so the normalization is removed.
Json random_images(Json given, const net::Network& network) {
  Json transform = given.value("transform", Json::object());
  for (const char* key : {"mean", "std", "scale", "resize_short"}) transform.erase(key);
  if (transform.erase("random_resized_crop") > 0) transform["crop"] = network.input().height();
  const bool random = given["type"] == "random";
  return {{"type", "random"},
          {"channels", network.input().channels()},
          {"height", random ? given["height"].get<int64_t>() : network.input().height()},
          {"width", random ? given["width"].get<int64_t>() : network.input().width()},
          {"classes", network.classes()},
          {"samples", kBatch},
          {"extras", given.value("extras", Json::array())},
          {"transform", transform}};
}

/// The job with three steps on the same two samples. The learning rate is scaled down for two
/// samples; most recipes use batches of 256.
Json three_steps(const fs::path& file) {
  Json job = read_json(file);
  const fs::path network = kConfigs / job["network"].get<std::string>();
  job["network"] = network.string();
  Json& data = job["data"];
  Json& rate = job["optimizer"]["learning_rate"];
  rate = rate.get<double>() * kBatch / 256;
  data = {{"train", random_images(data["train"], net::Network(network, kBatch))},
          {"batch_per_worker", kBatch}};
  job["train"] = {{"steps", 3}, {"seed", 1}, {"log_every", 1}};
  job.erase("cluster");
  return job;
}

/// Expected loss of a network that gives all classes the same probability.
double loss_of_ignorance(const net::Network& network) {
  double sum = 0;
  for (const net::Node& node : network.nodes())
    if (node.definition->is_loss())
      sum += node.definition->loss_weight() * std::log(static_cast<double>(network.classes()));
  return sum;
}

void train_three_steps(const fs::path& file) {
  const TinyJob folder;
  write_text(folder.folder / "job.json", three_steps(file).dump());
  folder.run("run");
  const double ignorance = loss_of_ignorance(*folder.load().network);
  const std::vector<double> losses = losses_of(folder.folder / "run");
  CAPTURE(ignorance);
  CHECK(losses.size() == 3);
  for (const double loss : losses) {
    CHECK(loss > 0);
    CHECK(loss < 1.5 * ignorance);
  }
}

}  // namespace

TEST_CASE("every shipped job trains for three steps" * poseidon::test::nightly()) {
  for (const auto& entry : fs::directory_iterator(kConfigs)) {
    if (entry.path().extension() != ".json") continue;
    // The job on pairs is tested with digits (digits_slow_test).
    if (entry.path().stem() == "lenet-siamese-mnist") continue;
    CAPTURE(entry.path().string());
    train_three_steps(entry.path());
  }
}
