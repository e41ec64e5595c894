#include "bench/gpu/tally.h"

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
  seconds += other.seconds;
  memory_seconds += other.memory_seconds;
  return *this;
}

void Tally::add(const std::string& kernel, const Demand& demand) {
  const double memory = demand.bytes / rates_.bytes_per_second;
  const double arithmetic = demand.flop / rates_.flops(demand.arithmetic);
  const double host = demand.host_bytes / rates_.host_bytes_per_second;
  const double seconds =
      std::max({memory, arithmetic, host}) + demand.launches * rates_.launch_seconds;
  works_[{part_, kernel}] += {.calls = 1,
                              .bytes = demand.bytes + demand.host_bytes,
                              .flop = demand.flop,
                              .seconds = seconds,
                              .memory_seconds = memory > arithmetic ? seconds : 0};
}

std::map<std::string, Work> Tally::by_part() const {
  std::map<std::string, Work> parts;
  for (const auto& [key, work] : works_) parts[key.first] += work;
  return parts;
}

std::map<std::string, Work> Tally::by_kernel() const {
  std::map<std::string, Work> kernels;
  for (const auto& [key, work] : works_) kernels[key.second] += work;
  return kernels;
}

Work Tally::all() const {
  Work all;
  for (const auto& [key, work] : works_) all += work;
  return all;
}

}  // namespace poseidon::bench
