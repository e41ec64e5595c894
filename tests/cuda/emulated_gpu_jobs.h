#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/philox.h"
#include "layers/cpu/backend.h"
#include "tests/support/gpu/emulated_gpu_backend.h"
#include "tests/trainer/joined_workers.h"
#include "tests/trainer/small_networks.h"
#include "tests/trainer/tiny_job.h"

/// Jobs of several workers on emulated GPUs.
namespace poseidon::trainer {

/// A small LeNet for generated digits, which are pixels of one channel.
inline constexpr const char* kOfDigits = R"({
  "name": "of-digits", "input": {"channels": 1, "height": 8, "width": 8},
  "layers": [
    {"name": "conv1", "type": "convolution", "outputs": 3, "kernel": 3},
    {"name": "pool1", "type": "pooling", "method": "max", "kernel": 2, "stride": 2},
    {"name": "ip1", "type": "linear", "outputs": 10},
    {"name": "loss", "type": "softmax_loss"}]})";
inline constexpr const char* kDigits =
    R"({"type": "digits", "samples": 50, "transform": {"crop": [8, 8], "scale": 0.00390625}})";

/// A network with two readers of its input of three channels. The readers need different layouts.
inline constexpr const char* kOfImages = R"({
  "name": "of-images", "input": {"channels": 3, "height": 6, "width": 6},
  "layers": [
    {"name": "conv1", "type": "convolution", "outputs": 4, "kernel": 3},
    {"name": "relu1", "type": "relu"},
    {"name": "pool1", "type": "pooling", "method": "average", "global": true},
    {"name": "ip1", "type": "linear", "outputs": 10},
    {"name": "ip2", "type": "linear", "inputs": ["input"], "outputs": 10},
    {"name": "sum", "type": "eltwise", "inputs": ["ip1", "ip2"]},
    {"name": "loss", "type": "softmax_loss"}]})";
inline constexpr const char* kImages = R"({"type": "cifar10", "path": "images", "transform":
    {"padding": 2, "crop": [6, 6], "mirror": true, "mean": [125, 123, 114], "std": [63, 62, 67]}})";

/// The data for kTwoInputs: those of the tiny job, with auxiliary inputs.
inline const std::string kDataOfTwoInputs =
    std::string(R"({"type": "random", "channels": 2, "height": 6, "width": 6, "classes": 3,
    "samples": 50, "transform": {"scale": 0.01}, "extras": )") +
    kExtras + "}";

/// A network with its data; null: the tiny job's data, which are floats.
struct EmulatedGpuNetwork {
  const char* network;
  const char* data = nullptr;
};
inline const std::vector<EmulatedGpuNetwork> kEmulatedGpuNetworks{
    {kTinyNetwork},
    {kSmallResNet},
    {kSmallLenet},
    {kOfDigits, kDigits},
    {kOfImages, kImages},
    {kSmallShapes},
    {kSharing},
    {kSmallFunctions},
    {kSmallLosses},
    {kPhased},
    {kTwoInputs, kDataOfTwoInputs.c_str()}};

/// Writes CIFAR-10 files with ten random records each.
inline void write_images(const fs::path& folder) {
  fs::create_directories(folder);
  uint64_t number = 0;
  for (const char* file : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                           "data_batch_5", "test_batch"}) {
    std::string records;
    RandomStream random(1, RandomPurpose::kGeneration, 0, number++);
    for (char label = 0; label < 10; ++label) {
      records.push_back(label);
      for (int pixel = 0; pixel < 3 * 32 * 32; ++pixel)
        records.push_back(static_cast<char>(random.next_word() >> 24));
    }
    write_text(folder / (std::string(file) + ".bin"), records);
  }
}

/// The tiny job with another network, and data for it.
class EmulatedGpuJob {
 public:
  explicit EmulatedGpuJob(const EmulatedGpuNetwork& gpu_job)
      : tiny_(gpu_job.network), data_(gpu_job.data) {
    // Compares the text: each source file has a separate copy of the literal.
    if (data_ != nullptr && std::string_view(data_) == kImages)
      write_images(tiny_.folder / "images");
  }
  Job load(std::vector<std::string> overrides = {}) const {
    if (data_ != nullptr)
      for (const char* set : {"data.train=", "data.test="})
        overrides.push_back(std::string(set) + data_);
    return tiny_.load(std::move(overrides));
  }
  const fs::path& folder() const { return tiny_.folder; }

 private:
  TinyJob tiny_;
  const char* data_;
};

struct Cluster {
  const char* scheme;
  int workers, servers, staleness;
  int shards = 0;          ///< 0: one per device
  int devices = 1;         ///< per worker
  bool with_cpus = false;  ///< every second worker uses a CPU
  const char* wire = "fp32";
};
inline const std::vector<Cluster> kClusters{{"ps", 2, 1, 0},
                                            {"ps", 4, 2, 1},
                                            {"ps", 2, 1, 0, 5},
                                            {"sfb", 2, 1, 0},
                                            {"sfb", 4, 1, 1},
                                            {"auto", 4, 4, 0},
                                            {"auto", 2, 2, 1},
                                            {"auto", 1, 0, 0},
                                            {"ps", 1, 0, 0, 0, 2},
                                            {"sfb", 1, 0, 1, 5, 2},
                                            {"ps", 2, 1, 1, 5, 2},
                                            {"auto", 2, 2, 0, 4, 2},
                                            {"ps", 2, 1, 0, 5, 1, true},
                                            {"ps", 3, 2, 1, 5, 1, true}};

inline Job job_of(const EmulatedGpuJob& gpu_job, const Cluster& cluster) {
  const auto number = [](int value) { return std::to_string(value); };
  std::string indices = "0";
  for (int device = 1; device < cluster.devices; ++device) indices += ",0";
  return gpu_job.load(
      {std::string("comm.scheme=") + cluster.scheme, "device.indices=[" + indices + "]",
       "cluster.workers=" + number(cluster.workers), "cluster.servers=" + number(cluster.servers),
       "cluster.logical_shards=" + number(cluster.shards),
       "comm.staleness=" + number(cluster.staleness), std::string("comm.wire=") + cluster.wire,
       "data.global_batch=20"});
}

inline constexpr int64_t kEmulatedGpuSteps = 5;

/// A device of a cluster. `number`: its index among those of all workers.
inline layers::Backend emulated_gpu_device(const Cluster& cluster, size_t number,
                                           const cuda::FakeDriver::Options& options) {
  return cluster.with_cpus && number % 2 == 1 ? layers::cpu::make_cpu_backend(1, DataType::kFp32)
                                              : test::make_emulated_gpu_backend(options);
}

/// The digest of each tensor after a part of a run. `seed` selects the order of GPU work; 0: the
/// order of issue. Throws LogicError if workers differ.
inline std::vector<int64_t> train_on_emulated_gpu(const EmulatedGpuJob& gpu_job,
                                                  const Cluster& cluster, uint64_t seed,
                                                  const RunPart& part = {
                                                      .steps = kEmulatedGpuSteps}) {
  const auto digests = train_in_parallel(job_of(gpu_job, cluster), part, [&](size_t device) {
    return emulated_gpu_device(cluster, device, {.seed = seed == 0 ? 0 : seed * 100 + device});
  });
  for (const std::vector<int64_t>& each : digests) check(each == digests[0], "workers agree");
  return digests[0];
}

/// The same for a run that stops after `stop` steps and continues on another cluster from its
/// checkpoint.
inline std::vector<int64_t> train_in_two(const EmulatedGpuJob& gpu_job, const Cluster& first,
                                         const Cluster& then, int64_t stop, uint64_t seed) {
  train_on_emulated_gpu(gpu_job, first, seed,
                        {.steps = kEmulatedGpuSteps, .stop = stop, .folder = gpu_job.folder()});
  const Checkpoint checkpoint(gpu_job.folder() / text("step-", stop, ".state"));
  return train_on_emulated_gpu(gpu_job, then, seed,
                               {.steps = kEmulatedGpuSteps, .resumed = &checkpoint});
}

/// Another cluster that gives the same bits: same schemes, same logical shards. Workers with one
/// device get two if there are enough shards, and the reverse. A cluster with CPUs is returned
/// unchanged: bits depend on the shards that CPUs have.
inline Cluster other_cluster(Cluster cluster, int workers) {
  if (cluster.shards == 0) cluster.shards = cluster.workers * cluster.devices;
  if (cluster.with_cpus || std::string_view(cluster.scheme) == "auto" || workers > cluster.shards)
    return cluster;
  cluster.workers = workers;
  cluster.devices = std::min(3 - cluster.devices, cluster.shards / workers);
  if (workers == 1) cluster.servers = 0;
  return cluster;
}

}  // namespace poseidon::trainer
