// Batches on an emulated GPU: batches of pixels compared with batches of values, and the memory of
// batches.

#include <doctest/doctest.h>

#include "core/bf16.h"
#include "data/random_dataset.h"
#include "tests/cuda/emulated_gpu_jobs.h"
#include "tests/support/device_memory.h"
#include "tests/support/folders.h"
#include "tests/trainer/made_training.h"
#include "trainer/measure/timing.h"
#include "trainer/step/evaluation.h"

using namespace poseidon;
using namespace poseidon::trainer;
using poseidon::test::make_emulated_gpu_backend;

namespace {

/// The same batches of 4 samples, as values and as pixels.
struct TwoForms {
  TwoForms(const data::Dataset& dataset, const data::Transform& transform, data::Phase phase)
      : as_values(dataset, transform, options(phase, false), log),
        as_pixels(dataset, transform, options(phase, true), log) {}

  static data::LoaderOptions options(data::Phase phase, bool pixels) {
    return {.phase = phase,
            .global_batch = 4,
            .shards = {{0, 4}},
            .memory = {.allocate = nullptr, .pixels = pixels}};
  }

  SilentLog log;
  data::Loader as_values, as_pixels;
};

struct Written {
  explicit Written(DataType type)
      : backend(make_emulated_gpu_backend(
            {}, {.precision =
                     type == DataType::kBf16 ? cuda::Precision::kBf16 : cuda::Precision::kFp32})),
        input(backend.factory->make_batch_input()) {}

  /// Writes a batch to the input. Returns the input's values in canonical order.
  std::vector<float> write(const BatchValues& batch, const Shape& shape, DataType type) {
    Device& device = *backend.device;
    test::DeviceMemory memory(device);
    const Buffer held = device.allocate(batch.bytes().size(), MemoryKind::kDevice, "a test");
    device.write(batch.bytes(), held.as<std::byte>());
    const Tensor there =
        memory.take_tensor(shape, input->format_for(shape, {Layout::kChannelsLast, type}));
    input->write(batch.at(held.as<std::byte>()), there);
    return memory.load(there);
  }

  layers::Backend backend;
  std::unique_ptr<layers::BatchInput> input;
};

/// Checks both forms of transformed random pixels. Returns false if the transform does not keep
/// pixels, or if the GPU does not accept pixels with so many channels.
bool same_in_both_forms(const data::TransformConfig& config, const Shape& sample,
                        data::Phase phase) {
  const auto dataset = data::make_random_pixels(sample, 3, 12, 1);
  const data::Transform transform(config, sample, phase, 1);
  const Shape shape{4, sample[0], sample[1], sample[2]};
  if (!transform.keeps_pixels() || !Written(DataType::kFp32).input->accepts_pixels(shape))
    return false;
  TwoForms forms(*dataset, transform, phase);
  for (int step = 0; step < 3; ++step) {
    const data::Batch& values = forms.as_values.next();
    const data::Batch& pixels = forms.as_pixels.next();
    REQUIRE_FALSE(values.values.are_pixels());
    REQUIRE(pixels.values.are_pixels());
    for (const DataType type : {DataType::kFp32, DataType::kBf16}) {
      Written written(type);
      std::vector<float> expected(values.values.floats.begin(), values.values.floats.end());
      if (type == DataType::kBf16)
        for (float& value : expected) value = Bf16(value);
      CHECK(written.write(pixels.values, shape, type) == expected);
      CHECK(written.write(values.values, shape, type) == expected);
    }
  }
  return true;
}

}  // namespace

TEST_CASE("pixel batches have the bits of the CPU's transform, for every job of configs/") {
  std::vector<std::string> as_pixels;
  for (const auto& entry : fs::directory_iterator(fs::path(test::source_folder()) / "configs")) {
    if (entry.path().extension() != ".json") continue;
    CAPTURE(entry.path().string());
    SilentLog log;
    const Job job = load_job({.file = entry.path(), .data_may_be_missing = true}, log);
    const Shape& input = job.network->input();
    const Shape sample{input.channels(), input.height(), input.width()};
    const data::DatasetConfig& train = job.config.data.train;
    const data::DatasetConfig& test = job.config.data.test;
    if (train.type == "random") continue;  // floats, not pixels
    if (same_in_both_forms(train.transform, sample, data::Phase::kTrain))
      as_pixels.push_back(entry.path().stem());
    if (same_in_both_forms(test.has_transform ? test.transform : train.transform, sample,
                           data::Phase::kTest))
      as_pixels.push_back(entry.path().stem().string() + " test");
  }
  std::ranges::sort(as_pixels);
  CHECK(as_pixels == std::vector<std::string>{"cifar10_full-cifar10", "cifar10_full-cifar10 test",
                                              "cifar10_quick-cifar10", "cifar10_quick-cifar10 test",
                                              "lenet-digits", "lenet-digits test", "lenet-mnist",
                                              "lenet-mnist test", "resnet20-cifar10",
                                              "resnet20-cifar10 test", "resnet20-cifar10-short",
                                              "resnet20-cifar10-short test"});
}

namespace {

/// All values that a few steps change. Batches are pixels if `pixels` is set and the transform
/// keeps them.
std::vector<float> train_on(const Job& job, bool pixels, uint64_t seed, cuda::Precision precision) {
  Training training(make_emulated_gpu_backend({.seed = seed}, {.precision = precision}), job);
  const data::LoaderOptions options{
      .seed = 3,
      .global_batch = job.config.global_batch(),
      .shards = training.shards,
      .memory = {.allocate = memory_for(training.engine.net()).allocate, .pixels = pixels}};
  data::Loader loader(*training.data.dataset, *training.data.transform, options, training.log);
  TrainingLoop loop(training.engine.net(), training.optimizer, training.exchange, training.schedule,
                    loader,
                    {.seed = 3,
                     .global_batch = job.config.global_batch(),
                     .logical_shards = job.config.logical_shards(),
                     .shards = training.shards});
  for (int step = 0; step < 4; ++step) loop.step();
  loop.finish();
  loop.drain();
  return training.state();
}

}  // namespace

TEST_CASE("training on pixels has the bits of training on values, in every order") {
  for (const EmulatedGpuNetwork& network : {kEmulatedGpuNetworks[3], kEmulatedGpuNetworks[4]})
    for (const cuda::Precision precision : {cuda::Precision::kFp32, cuda::Precision::kBf16}) {
      const EmulatedGpuJob gpu_job(network);
      const Job job = gpu_job.load({"cluster.logical_shards=2"});
      const std::vector<float> expected = train_on(job, false, 0, precision);
      for (uint64_t seed = 0; seed < 4; ++seed)
        CHECK(train_on(job, true, seed, precision) == expected);
    }
}

TEST_CASE("the input is copied only if the first layer needs another layout") {
  const auto copies_of_input = [](const EmulatedGpuNetwork& network) {
    const EmulatedGpuJob gpu_job(network);
    const Job job = gpu_job.load();
    Training training(make_emulated_gpu_backend({}), job);
    SilentLog log;
    return std::ranges::count(time_on_random_values(job, training.engine.net(), 1, log),
                              "reorder of the input", &net::Timing::name);
  };
  CHECK(copies_of_input({kSmallResNet}) == 0);
  CHECK(copies_of_input({kOfDigits, kDigits}) == 0);
  CHECK(copies_of_input({kOfImages, kImages}) == 1);
}

TEST_CASE("consecutive batches do not overwrite each other before they are read") {
  const EmulatedGpuJob gpu_job({kOfImages, kImages});
  const Job job = gpu_job.load();
  std::vector<float> expected;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    Training training(make_emulated_gpu_backend({.seed = seed}), job);
    net::Net& net = training.engine.net();
    for (int step = 0; step < 3; ++step) {
      const data::Batch& batch = training.loader.next();
      set_input(net, batch, training.loader);
      const layers::StepParameters numbers{.seed = 1};
      net.forward({.phase = layers::Phase::kTrain, .numbers = &numbers, .labels = batch.labels});
    }
    const std::vector<float> losses = net.read_scalars()[0].values;
    if (seed == 0) expected = losses;
    CHECK(losses == expected);
  }
}

TEST_CASE("evaluations after the first one allocate no memory, and return equal results") {
  for (const EmulatedGpuNetwork& network : {kEmulatedGpuNetworks[0], kEmulatedGpuNetworks[3]})
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const EmulatedGpuJob gpu_job(network);
      const Job job = gpu_job.load();
      std::atomic<int64_t> allocations = 0;
      Training training(make_emulated_gpu_backend({.seed = seed, .allocations = &allocations}),
                        job);
      net::Net& net = training.engine.net();
      BufferCache memory = batch_cache(net);
      const auto test = [&] {
        return evaluate_part(net, training.data, {.seed = 3}, memory, training.log)->mean();
      };
      const double loss = test().mean.loss;
      const int64_t before = allocations;
      for (int i = 0; i < 3; ++i) CHECK(test().mean.loss == loss);
      CHECK(allocations == before);
      CHECK(evaluate(net, training.data, {.seed = 3}, training.log)->mean.loss == loss);
      CHECK(allocations > before);
    }
}
