#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "tests/support/gpu/played_backend.h"
#include "tests/trainer/joined_workers.h"
#include "tests/trainer/tiny_job.h"

/// Jobs of several workers, each on a GPU that the host plays.
namespace poseidon::trainer {

/// Batch norm with and without a shortcut, relu fused and not, two kinds of pooling, dropout.
inline constexpr const char* kSmallResNet = R"({
  "name": "small-resnet", "input": {"channels": 2, "height": 6, "width": 6},
  "layers": [
    {"name": "conv1", "type": "convolution", "outputs": 4, "kernel": 3, "padding": 1, "bias": false},
    {"name": "bn1", "type": "batch_norm"},
    {"name": "relu1", "type": "relu"},
    {"name": "pool1", "type": "pooling", "method": "max", "kernel": 2, "stride": 2},
    {"name": "conv2", "type": "convolution", "outputs": 4, "kernel": 3, "padding": 1, "bias": false},
    {"name": "bn2", "type": "batch_norm"},
    {"name": "sum", "type": "eltwise", "inputs": ["bn2", "pool1"]},
    {"name": "relu2", "type": "relu"},
    {"name": "pool2", "type": "pooling", "method": "average", "global": true},
    {"name": "drop", "type": "dropout", "probability": 0.3},
    {"name": "ip", "type": "linear", "outputs": 3},
    {"name": "loss", "type": "softmax_loss"}]})";

/// LeNet's layers, of fewer and smaller images.
inline constexpr const char* kSmallLenet = R"({
  "name": "small-lenet", "input": {"channels": 2, "height": 6, "width": 6},
  "layers": [
    {"name": "conv1", "type": "convolution", "outputs": 3, "kernel": 3},
    {"name": "pool1", "type": "pooling", "method": "max", "kernel": 2, "stride": 2},
    {"name": "conv2", "type": "convolution", "outputs": 5, "kernel": 2},
    {"name": "ip1", "type": "linear", "outputs": 10},
    {"name": "relu1", "type": "relu"},
    {"name": "ip2", "type": "linear", "outputs": 3},
    {"name": "loss", "type": "softmax_loss"}]})";

struct Cluster {
  const char* scheme;
  int workers, servers, staleness;
  int shards = 0;  ///< 0: one a worker
};
inline const std::vector<Cluster> kClusters{{"ps", 2, 1, 0},   {"ps", 4, 2, 1},  {"ps", 2, 1, 0, 5},
                                            {"sfb", 2, 1, 0},  {"sfb", 4, 1, 1}, {"auto", 4, 4, 0},
                                            {"auto", 2, 2, 1}, {"auto", 1, 0, 0}};

inline Job job_of(const TinyJob& tiny, const Cluster& cluster) {
  const auto number = [](int value) { return std::to_string(value); };
  return tiny.load({std::string("comm.scheme=") + cluster.scheme,
                    "cluster.workers=" + number(cluster.workers),
                    "cluster.servers=" + number(cluster.servers),
                    "cluster.logical_shards=" + number(cluster.shards),
                    "comm.staleness=" + number(cluster.staleness), "data.global_batch=20"});
}

inline constexpr std::array kPlayedNetworks{kTinyNetwork, kSmallResNet, kSmallLenet};

inline constexpr int64_t kPlayedSteps = 3;

/// The digests that all workers come to after a part of a run, in the order of work that the seed
/// says; 0: as it is issued.
inline std::vector<int64_t> train_played(const Job& job, uint64_t seed,
                                         const RunPart& part = {.steps = kPlayedSteps}) {
  uint64_t worker = 0;
  const auto digests = train_together(job, part, [&] {
    return test::make_played_backend({.seed = seed == 0 ? 0 : seed * 100 + worker++});
  });
  for (const std::vector<int64_t>& each : digests) check(each == digests[0], "workers agree");
  return digests[0];
}

/// The same of a run that one cluster begins and another ends, from a checkpoint after `stop`
/// steps.
inline std::vector<int64_t> train_in_two(const TinyJob& tiny, const Cluster& first,
                                         const Cluster& then, int64_t stop, uint64_t seed) {
  train_played(job_of(tiny, first), seed,
               {.steps = kPlayedSteps, .stop = stop, .folder = tiny.folder});
  const Checkpoint checkpoint(tiny.folder / text("step-", stop, ".state"));
  return train_played(job_of(tiny, then), seed, {.steps = kPlayedSteps, .resumed = &checkpoint});
}

/// Another cluster that comes to the same bits: by the same schemes, of the same logical shards.
inline Cluster other_cluster(Cluster cluster, int workers) {
  if (cluster.shards == 0) cluster.shards = cluster.workers;
  if (std::string_view(cluster.scheme) == "auto" || workers > cluster.shards) return cluster;
  cluster.workers = workers;
  if (workers == 1) cluster.servers = 0;
  return cluster;
}

}  // namespace poseidon::trainer
