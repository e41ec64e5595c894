#pragma once

#include <cstdint>
#include <span>
#include <vector>

/// Shard assignment for workers of different speeds: how many logical shards each worker gets.
namespace poseidon::comm {

/// The time of a worker's step, in any unit: each_shard for every shard of its fullest device, plus
/// each_step once.
struct WorkerStepTime {
  double each_shard = 1, each_step = 0;
  int64_t devices = 1;  ///< of the worker; each has at least one shard
  double step_of(int64_t shards) const {
    return each_step + each_shard * static_cast<double>((shards + devices - 1) / devices);
  }
};

/// An assignment with fewer partial sums may have a longer step, up to this multiple of the
/// shortest one. Measured times are not more exact than this.
inline constexpr double kAlmostShortest = 1.05;

/// Returns the number of shards of each worker. The ranges of the workers follow each other in the
/// order of `workers`. The time of an assignment is the step time of its slowest worker. Considers
/// the assignments that take at most kAlmostShortest times the shortest possible time. Selects the
/// one with the fewest parts of the fixed tree; among equals, the shortest one. For more than 4096
/// shards, returns an assignment with the shortest time, because a comparison of all assignments
/// would take too long. There must be at least as many shards as devices.
std::vector<int64_t> assign_shards(std::span<const WorkerStepTime> workers, int64_t shards);

/// The time of the slowest worker's step.
double slowest_step(std::span<const WorkerStepTime> workers, std::span<const int64_t> shards);

}  // namespace poseidon::comm
