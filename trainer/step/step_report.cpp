#include "trainer/step/step_report.h"

#include <algorithm>

namespace poseidon::trainer {

StepTimes& StepTimes::operator+=(const StepTimes& other) {
  compute_ms += other.compute_ms;
  data_wait_ms += other.data_wait_ms;
  sum_wait_ms += other.sum_wait_ms;
  return *this;
}

StepReport report_of_devices(std::vector<StepReport> devices, int64_t global_batch) {
  std::vector<ShardReport> shards;
  for (const StepReport& device : devices)
    shards.insert(shards.end(), device.shards.begin(), device.shards.end());
  StepReport report = std::move(*std::ranges::max_element(
      devices, {}, [](const StepReport& device) { return device.times.all_ms(); }));
  report.shards = std::move(shards);
  set_means(report.shards, global_batch, report);
  return report;
}

size_t main_loss(const std::vector<net::Net::Loss>& losses) {
  size_t best = 0;
  for (size_t i = 1; i < losses.size(); ++i)
    if (losses[i].weight >= losses[best].weight) best = i;
  return best;
}

ShardReport report_of(const std::vector<net::Net::Loss>& losses) {
  ShardReport report;
  for (const net::Net::Loss& loss : losses)
    for (size_t i = 0; i < loss.loss_and_rank.size(); i += 2)
      report.loss += loss.weight * static_cast<double>(loss.loss_and_rank[i]);
  const std::vector<float>& ranked = losses[main_loss(losses)].loss_and_rank;
  for (size_t i = 0; i < ranked.size(); i += 2) report.hits += ranked[i + 1] == 0 ? 1 : 0;
  return report;
}

void set_means(std::span<const ShardReport> shards, int64_t global_batch, StepReport& report) {
  double loss = 0;
  int64_t hits = 0;
  for (const ShardReport& shard : shards) {
    loss += shard.loss;
    hits += shard.hits;
  }
  report.loss = loss / static_cast<double>(global_batch);
  report.top1 = static_cast<double>(hits) / static_cast<double>(global_batch);
}

}  // namespace poseidon::trainer
