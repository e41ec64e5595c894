#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace poseidon::bench {

/// The number format in which a GPU multiplies.
enum class Arithmetic : uint8_t { kFp32, kTf32, kBf16 };

/// The rates and the memory size of a GPU, for predictions.
struct GpuRates {
  double bytes_per_second;       ///< device memory, reads plus writes
  double host_bytes_per_second;  ///< copies between device and host memory
  double fp32_flops, tf32_flops, bf16_flops;
  double launch_seconds;  ///< time that each launch adds to the time of a kernel
  double memory_bytes;

  double flops(Arithmetic arithmetic) const;
};

/// H200 SXM. The rate of memory was measured with a copy, the rate of bf16 with a large product.
/// NVIDIA states 4.8 TB/s and 989 TFLOP/s. The rates of tf32, fp32 and the host link are 80 to 90 %
/// of NVIDIA's figures (495 TFLOP/s, 67 TFLOP/s, PCIe 5.0 x16).
inline constexpr GpuRates kH200{.bytes_per_second = 4.3e12,
                                .host_bytes_per_second = 55e9,
                                .fp32_flops = 60e12,
                                .tf32_flops = 395e12,
                                .bf16_flops = 790e12,
                                .launch_seconds = 2e-6,
                                .memory_bytes = 141e9};

/// The cost of one operation.
struct Cost {
  double bytes = 0;              ///< read plus written in device memory
  double host_bytes = 0;         ///< copied from or to host memory
  double kernel_host_bytes = 0;  ///< read and written in host memory by a kernel
  double flop = 0;
  Arithmetic arithmetic = Arithmetic::kFp32;
  int launches = 1;
};

/// The total cost of several operations, and the least time that they take sequentially.
struct Work {
  int64_t calls = 0;
  double bytes = 0, flop = 0;    ///< `bytes` includes host memory
  double kernel_host_bytes = 0;  ///< bytes of host memory that kernels access; part of `bytes`
  double seconds = 0;
  double memory_seconds = 0;  ///< the time of the memory-bound operations

  Work& operator+=(const Work& other);
};

/// Adds up the cost on a GPU, by part of a step (such as "update") and by kernel.
class CostCounter {
 public:
  explicit CostCounter(const GpuRates& rates) : rates_(rates) {}

  const GpuRates& rates() const { return rates_; }
  void add(const std::string& kernel, const Cost& cost);
  void clear() { works_.clear(); }

  /// The work by (part, kernel).
  const std::map<std::pair<std::string, std::string>, Work>& works() const { return works_; }
  std::map<std::string, Work> by_part() const;
  std::map<std::string, Work> by_kernel() const;
  Work all() const;

  /// While an object of this class exists, added work belongs to the part `name` of a step. A
  /// nested object has priority.
  class Part {
   public:
    Part(CostCounter& cost_counter, std::string name)
        : cost_counter_(cost_counter), outer_(std::exchange(cost_counter.part_, std::move(name))) {}
    ~Part() { cost_counter_.part_ = outer_; }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    CostCounter& cost_counter_;
    const std::string outer_;
  };

 private:
  const GpuRates rates_;
  std::string part_;
  std::map<std::pair<std::string, std::string>, Work> works_;
};

}  // namespace poseidon::bench
