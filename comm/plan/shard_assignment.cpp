#include "comm/plan/shard_assignment.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>

#include "comm/plan/shard_parts.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

/// The most shards for which all assignments are compared. With more, the assignment with the
/// shortest step is used.
constexpr int64_t kMaxCompared = 4096;

int64_t devices_of(std::span<const WorkerStepTime> workers) {
  int64_t devices = 0;
  for (const WorkerStepTime& worker : workers) devices += worker.devices;
  return devices;
}

/// Assigns one shard to each device. Then assigns the other shards one by one. Each goes to the
/// worker that would have the shortest step with one more shard.
std::vector<int64_t> shortest(std::span<const WorkerStepTime> workers, int64_t shards) {
  using Next = std::tuple<double, int64_t, size_t>;  // step with one more shard, that count, rank
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  std::vector<int64_t> assigned(workers.size());
  const auto give = [&](size_t worker, int64_t count) {
    const int64_t more = (assigned[worker] += count) + 1;
    next.emplace(workers[worker].step_of(more), more, worker);
  };
  for (size_t worker = 0; worker < workers.size(); ++worker) give(worker, workers[worker].devices);
  for (int64_t left = shards - devices_of(workers); left > 0; --left) {
    const size_t worker = std::get<2>(next.top());
    next.pop();
    give(worker, 1);
  }
  return assigned;
}

/// Finds the best assignment in which no worker takes longer than `limit`: the fewest parts, then
/// the shortest step. It proceeds worker by worker (dynamic programming), because the best
/// assignment of the shards before a border does not depend on the shards after it.
class ShardAssigner {
 public:
  ShardAssigner(std::span<const WorkerStepTime> workers, int64_t shards, double limit)
      : workers_(workers), shards_(shards), limit_(limit) {
    for (const WorkerStepTime& worker : workers) most_.push_back(most_within(worker));
  }

  std::vector<int64_t> best() {
    std::vector<Border> borders{{.end = 0}};
    std::vector<std::vector<Border>> all;
    int64_t behind = 0;
    for (const int64_t most : most_) behind += most;
    for (size_t worker = 0; worker < workers_.size(); ++worker) {
      behind -= most_[worker];
      borders = borders_after(worker, borders, behind);
      all.push_back(borders);
    }
    std::vector<int64_t> assigned(workers_.size());
    size_t index = 0;
    for (size_t worker = workers_.size(); worker-- > 0;) {
      assigned[worker] = all[worker][index].count;
      index = all[worker][index].before;
    }
    return assigned;
  }

 private:
  /// The end of the first workers' shards, and the best assignment of the shards before that end.
  struct Border {
    int64_t end = 0, count = 0;  ///< shards before it, and the last worker's shards
    size_t before = 0;           ///< index of the border before the last worker's shards
    size_t parts = 0;
    double step = 0;
  };

  int64_t most_within(const WorkerStepTime& worker) const {
    int64_t least = worker.devices, most = shards_;
    while (least < most) {
      const int64_t middle = (least + most + 1) / 2;
      if (worker.step_of(middle) <= limit_)
        least = middle;
      else
        most = middle - 1;
    }
    return least;
  }

  /// Returns the possible ends of the shards of `worker`. The later workers must be able to hold
  /// the remaining shards: at least one for each of their devices, and at most `behind`.
  std::vector<Border> borders_after(size_t worker, const std::vector<Border>& before,
                                    int64_t behind) const {
    const int64_t others = devices_of(workers_.subspan(worker + 1));
    const int64_t first = std::max(before.front().end + workers_[worker].devices, shards_ - behind);
    const int64_t last = std::min(before.back().end + most_[worker], shards_ - others);
    std::vector<Border> borders;
    for (int64_t end = first; end <= last; ++end) borders.push_back(border(worker, before, end));
    return borders;
  }

  /// Returns the best assignment with this `end`. If several are equal, it selects the one in which
  /// the first workers have more shards.
  Border border(size_t worker, const std::vector<Border>& before, int64_t end) const {
    Border best{.parts = std::numeric_limits<size_t>::max()};
    for (size_t i = 0; i < before.size(); ++i) {
      const int64_t count = end - before[i].end;
      if (count < workers_[worker].devices || count > most_[worker]) continue;
      const Part range{static_cast<uint32_t>(before[i].end), static_cast<uint32_t>(count)};
      const Border found{
          .end = end,
          .count = count,
          .before = i,
          .parts = before[i].parts + parts_within(static_cast<uint32_t>(shards_), range).size(),
          .step = std::max(before[i].step, workers_[worker].step_of(count))};
      if (std::tie(found.parts, found.step) <= std::tie(best.parts, best.step)) best = found;
    }
    return best;
  }

  const std::span<const WorkerStepTime> workers_;
  const int64_t shards_;
  const double limit_;
  std::vector<int64_t> most_;  ///< the most shards of each worker within the limit
};

}  // namespace

std::vector<int64_t> assign_shards(std::span<const WorkerStepTime> workers, int64_t shards) {
  check(!workers.empty() && shards >= devices_of(workers), "each device has a logical shard");
  std::vector<int64_t> assigned = shortest(workers, shards);
  if (shards > kMaxCompared) return assigned;
  return ShardAssigner(workers, shards, slowest_step(workers, assigned) * kAlmostShortest).best();
}

double slowest_step(std::span<const WorkerStepTime> workers, std::span<const int64_t> shards) {
  double slowest = 0;
  for (size_t i = 0; i < workers.size(); ++i)
    slowest = std::max(slowest, workers[i].step_of(shards[i]));
  return slowest;
}

}  // namespace poseidon::comm
