#pragma once

#include <cstdint>
#include <span>
#include <vector>

/// Logical shards for workers that are not equally fast.
namespace poseidon::comm {

/// What a step takes a worker, in any unit: so much for each shard of the device that has most of
/// them, and so much once.
struct WorkerPace {
  double each_shard = 1, each_step = 0;
  int64_t devices = 1;  ///< that share the worker's shards, and have one at least
  double step_of(int64_t shards) const {
    return each_step + each_shard * static_cast<double>((shards + devices - 1) / devices);
  }
};

/// A step may be so much longer than the shortest one, where fewer partial sums are sent for it:
/// times that were measured are no more exact.
inline constexpr double kAlmostShortest = 1.05;

/// How many of the `shards` each worker should have, where each has those that follow the ones of
/// the worker before: the slowest worker's step is the shortest that there is, or almost; of such
/// dealings, the workers' ranges are those of the fewest parts of the fixed tree; and of these, the
/// one with the shortest step. There are as many shards as devices, or more.
std::vector<int64_t> deal_shards(std::span<const WorkerPace> workers, int64_t shards);

/// What a step takes the slowest worker.
double slowest_step(std::span<const WorkerPace> workers, std::span<const int64_t> shards);

}  // namespace poseidon::comm
