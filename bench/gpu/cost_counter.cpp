#include "bench/gpu/cost_counter.h"

#include <algorithm>

namespace poseidon::bench {

double GpuRates::flops(Arithmetic arithmetic) const {
  switch (arithmetic) {
    case Arithmetic::kFp32: return fp32_flops;
    case Arithmetic::kTf32: return tf32_flops;
    case Arithmetic::kBf16: break;
  }
  return bf16_flops;
}

Work& Work::operator+=(const Work& other) {
  calls += other.calls;
  bytes += other.bytes;
  flop += other.flop;
  kernel_host_bytes += other.kernel_host_bytes;
  seconds += other.seconds;
  memory_seconds += other.memory_seconds;
  return *this;
}

void CostCounter::add(const std::string& kernel, const Cost& cost) {
  const double memory = cost.bytes / rates_.bytes_per_second;
  const double arithmetic = cost.flop / rates_.flops(cost.arithmetic);
  const double host_bytes = cost.host_bytes + cost.kernel_host_bytes;
  const double host = host_bytes / rates_.host_bytes_per_second;
  const double seconds =
      std::max({memory, arithmetic, host}) + cost.launches * rates_.launch_seconds;
  works_[{part_, kernel}] += {.calls = 1,
                              .bytes = cost.bytes + host_bytes,
                              .flop = cost.flop,
                              .kernel_host_bytes = cost.kernel_host_bytes,
                              .seconds = seconds,
                              .memory_seconds = memory > arithmetic ? seconds : 0};
}

std::map<std::string, Work> CostCounter::by_part() const {
  std::map<std::string, Work> parts;
  for (const auto& [key, work] : works_) parts[key.first] += work;
  return parts;
}

std::map<std::string, Work> CostCounter::by_kernel() const {
  std::map<std::string, Work> kernels;
  for (const auto& [key, work] : works_) kernels[key.second] += work;
  return kernels;
}

Work CostCounter::all() const {
  Work all;
  for (const auto& [key, work] : works_) all += work;
  return all;
}

}  // namespace poseidon::bench
