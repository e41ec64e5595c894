// Features of layers: one row per sample, in order, in canonical order, on any device.

#include "trainer/inference/extract.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/trainer/tiny_job.h"
#include "trainer/inference/feature_file.h"
#include "trainer/inference/test.h"
#include "trainer/state/safetensors.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

/// A run of the tiny job, and the features extracted from it.
class Extracting {
 public:
  Extracting() { job.run("run"); }

  Json extract(const std::vector<std::string>& layers, const std::string& file,
               const std::vector<std::string>& overrides = {}) const {
    Console console(Console::Mode::kSilent);
    return trainer::extract(job.load(overrides), {.resume = job.folder / "run"}, layers,
                            job.folder / file, console);
  }
  std::string bytes(const std::string& file) const { return read_text(job.folder / file); }
  SafetensorsFile open(const std::string& file) const { return SafetensorsFile(job.folder / file); }
  fs::path weights() const { return job.folder / "run/checkpoints/step-9.safetensors"; }

  const TinyJob job;
};

std::vector<float> values_of(const SafetensorsFile& file, const std::string& name) {
  const auto* entry = file.find(name);
  REQUIRE(entry != nullptr);
  return file.read(*entry);
}

std::vector<int32_t> labels_of(const SafetensorsFile& file) {
  const auto* entry = file.find("label");
  REQUIRE(entry != nullptr);
  CHECK(entry->type == "I32");
  std::vector<int32_t> labels(entry->bytes / sizeof(int32_t));
  file.file().read(entry->offset, std::as_writable_bytes(std::span(labels)));
  return labels;
}

}  // namespace

TEST_CASE("extracted features are the layers' outputs for every sample, in order") {
  const Extracting run;
  const Json told = run.extract({"relu", "ip", "bn", "conv"}, "all");
  CHECK(told["samples"] == 21);
  CHECK(told["step"] == 9);
  CHECK(told["layers"][0] == Json{{"name", "relu"}, {"shape", {21, 5, 4, 4}}});
  const SafetensorsFile file = run.open("all"), weights(run.weights());
  CHECK(file.find("conv")->shape == std::vector<int64_t>{21, 5, 4, 4});
  CHECK(file.find("ip")->shape == std::vector<int64_t>{21, 3, 1, 1});
  const auto relu = values_of(file, "relu"), bn = values_of(file, "bn"), ip = values_of(file, "ip");
  for (size_t i = 0; i < relu.size(); ++i) CHECK(relu[i] == std::max(bn[i], 0.0F));
  CHECK(std::ranges::any_of(bn, [](float value) { return value < 0; }));
  // The linear layer reads its input in canonical order (channel, row, column). Dropout is off in
  // tests.
  const auto weight = values_of(weights, "ip.weight"), bias = values_of(weights, "ip.bias");
  for (size_t n = 0; n < 21; ++n)
    for (size_t k = 0; k < 3; ++k) {
      double sum = bias[k];
      for (size_t i = 0; i < 80; ++i)
        sum += static_cast<double>(weight[80 * k + i]) * static_cast<double>(relu[80 * n + i]);
      CHECK(std::abs(static_cast<double>(ip[3 * n + k]) - sum) < 1e-5);
    }
  const auto data = data::open_dataset(run.job.load().config.data.test);
  data::Sample sample;
  const std::vector<int32_t> labels = labels_of(file);
  REQUIRE(labels.size() == 21);
  for (int64_t i = 0; i < 21; ++i) {
    data->read(i, sample);
    CHECK(labels[static_cast<size_t>(i)] == sample.label);
  }
}

TEST_CASE("extracted features do not depend on threads, batch size or other extracted layers") {
  const Extracting run;
  run.extract({"conv", "ip"}, "one");
  for (const char* threads : {"2", "3"}) {
    run.extract(
        {"conv", "ip"}, "several",
        {std::string("device.threads=") + threads, std::string("data.loader_threads=") + threads});
    CHECK(run.bytes("several") == run.bytes("one"));
  }
  run.extract({"ip"}, "alone");
  CHECK(values_of(run.open("alone"), "ip") == values_of(run.open("one"), "ip"));
  run.extract({"conv", "ip"}, "batches", {"data.batch_per_worker=5"});
  CHECK(values_of(run.open("batches"), "conv") == values_of(run.open("one"), "conv"));
  CHECK(labels_of(run.open("batches")) == labels_of(run.open("one")));
}

TEST_CASE("extraction uses EMA if the job has it, and converts bf16 to floats") {
  const TinyJob job;
  job.run("run", {"optimizer.average_decay=0.9"});
  Console console(Console::Mode::kSilent);
  const auto scores = [&](const std::vector<std::string>& overrides) {
    extract(job.load(overrides), {.resume = job.folder / "run"}, {"ip"}, job.folder / "file",
            console);
    return values_of(SafetensorsFile(job.folder / "file"), "ip");
  };
  const auto averaged = scores({"optimizer.average_decay=0.9"}), own = scores({});
  CHECK(averaged != own);
  const auto narrow = scores({"device.precision=bf16"});
  REQUIRE(narrow.size() == own.size());
  for (size_t i = 0; i < own.size(); ++i) CHECK(std::abs(narrow[i] - own[i]) < 0.05F);
}

TEST_CASE("--extract: the error for an unknown layer suggests similar names") {
  const Extracting run;
  const auto error = [&](const std::vector<std::string>& layers) {
    return error_of<ConfigError>([&] { run.extract(layers, "file"); });
  };
  CHECK(error({"ip", "cnv"}) ==
        "--extract: expected layers of network \"tiny\", such as \"conv\", \"bn\", got \"cnv\"");
  CHECK(error({"inception"}) ==
        "--extract: expected layers of network \"tiny\", which --check lists, got \"inception\"");
  CHECK(error({"ip", "ip"}) == "--extract: expected each layer once, got \"ip\" twice");
  CHECK(!fs::exists(run.job.folder / "file"));
  const std::string missing =
      error_of<ConfigError>([&] { run.extract({"ip"}, "file", {"data.test=null"}); });
  CHECK(missing.ends_with("/data: --extract requires \"test\""));
}

TEST_CASE("a stopped extraction leaves no file") {
  const Extracting run;
  const std::atomic<bool> stop = true;
  Console console(Console::Mode::kSilent);
  CHECK(error_of<RunError>([&] {
          extract(run.job.load(), {.resume = run.job.folder / "run", .stop = &stop}, {"ip"},
                  run.job.folder / "file", console);
        }) == "the extraction was stopped; no file was written");
  for (const fs::directory_entry& entry : fs::directory_iterator(run.job.folder))
    CHECK(!entry.path().filename().string().starts_with("file"));
}

TEST_CASE("a feature file buffers one batch, and is committed only with all samples") {
  const TinyJob job;
  const fs::path path = job.folder / "features";
  {
    FeatureFile file(path, {{"a", {2, 1, 1}}, {"b", {1, 1, 1}}}, 3);
    file.add(0, std::vector<float>{1, 2, 3, 4});
    file.add(1, std::vector<float>{7, 8});
    file.add_labels(std::vector<int32_t>{5, -1});
    CHECK_THROWS_AS(file.commit(), LogicError);
    CHECK_THROWS_AS(file.add(1, std::vector<float>{9, 10}), LogicError);
    file.add(1, std::vector<float>{9});
    file.add(0, std::vector<float>{5, 6});
    file.add_labels(std::vector<int32_t>{0});
    file.commit();
  }
  const SafetensorsFile file(path);
  CHECK(values_of(file, "a") == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(values_of(file, "b") == std::vector<float>{7, 8, 9});
  CHECK(labels_of(file) == std::vector<int32_t>{5, -1, 0});
}
