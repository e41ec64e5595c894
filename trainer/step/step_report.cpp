#include "trainer/step/step_report.h"

#include <algorithm>

namespace poseidon::trainer {

StepTimes& StepTimes::operator+=(const StepTimes& other) {
  compute_ms += other.compute_ms;
  data_wait_ms += other.data_wait_ms;
  sum_wait_ms += other.sum_wait_ms;
  return *this;
}

SampleSums& SampleSums::operator+=(const SampleSums& other) {
  loss += other.loss;
  scalars.resize(std::max(scalars.size(), other.scalars.size()));
  for (size_t i = 0; i < other.scalars.size(); ++i) scalars[i] += other.scalars[i];
  return *this;
}

SampleSums SampleSums::mean(int64_t samples) const {
  const auto count = static_cast<double>(samples);
  SampleSums mean{.loss = loss / count, .scalars = scalars};
  for (double& each : mean.scalars) each /= count;
  return mean;
}

SampleSums sums_of_batch(const net::Net& net, int64_t samples) {
  SampleSums sums;
  for (const auto& [scalar, values] : net.read_scalars()) {
    double sum = 0;
    for (const float value : std::span(values).first(static_cast<size_t>(samples))) {
      sum += static_cast<double>(value);
      if (scalar.is_loss) sums.loss += scalar.weight * static_cast<double>(value);
    }
    sums.scalars.push_back(sum);
  }
  return sums;
}

StepReport report_of_devices(std::vector<StepReport> devices, int64_t global_batch) {
  std::vector<SampleSums> shards;
  for (const StepReport& device : devices)
    shards.insert(shards.end(), device.shards.begin(), device.shards.end());
  StepReport report = std::move(*std::ranges::max_element(
      devices, {}, [](const StepReport& device) { return device.times.all_ms(); }));
  report.shards = std::move(shards);
  report.mean = mean_of_shards(report.shards, global_batch);
  return report;
}

SampleSums mean_of_shards(std::span<const SampleSums> shards, int64_t global_batch) {
  SampleSums sums;
  for (const SampleSums& shard : shards) sums += shard;
  return sums.mean(global_batch);
}

}  // namespace poseidon::trainer
