#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace poseidon::bench {

/// What products are computed with.
enum class Arithmetic : uint8_t { kFp32, kTf32, kBf16 };

/// What a GPU can do, as far as predictions know it.
struct GpuRates {
  double bytes_per_second;       ///< of its memory, read and written
  double host_bytes_per_second;  ///< between its memory and the host's
  double fp32_flops, tf32_flops, bf16_flops;
  double launch_seconds;  ///< of a kernel that waits for the one before
  double memory_bytes;

  double flops(Arithmetic arithmetic) const;
};

/// H200 SXM. Memory, and bf16: a copy and a large product as measured, of 4.8 TB/s and 989 TFLOP/s;
/// the others are the same share of what NVIDIA states (495 TFLOP/s tf32, 67 fp32, PCIe 5.0 x16).
inline constexpr GpuRates kH200{.bytes_per_second = 4.3e12,
                                .host_bytes_per_second = 55e9,
                                .fp32_flops = 60e12,
                                .tf32_flops = 395e12,
                                .bf16_flops = 790e12,
                                .launch_seconds = 2e-6,
                                .memory_bytes = 141e9};

/// What one operation asks for.
struct Demand {
  double bytes = 0;       ///< read and written in the GPU's memory
  double host_bytes = 0;  ///< copied from or to the host's
  double flop = 0;
  Arithmetic arithmetic = Arithmetic::kFp32;
  int launches = 1;
};

/// What operations ask for together, and how long they take one after another at least.
struct Work {
  int64_t calls = 0;
  double bytes = 0, flop = 0;
  double seconds = 0;
  double memory_seconds = 0;  ///< of those that memory bounds

  Work& operator+=(const Work& other);
};

/// Adds up what is asked of a GPU, by the part of a step and by kernel.
class Tally {
 public:
  explicit Tally(const GpuRates& rates) : rates_(rates) {}

  const GpuRates& rates() const { return rates_; }
  void add(const std::string& kernel, const Demand& demand);
  void clear() { works_.clear(); }

  /// Each kernel of each part, by (part, kernel).
  const std::map<std::pair<std::string, std::string>, Work>& works() const { return works_; }
  std::map<std::string, Work> by_part() const;
  std::map<std::string, Work> by_kernel() const;
  Work all() const;

  /// What is added while it lives is of this part of a step.
  class Part {
   public:
    Part(Tally& tally, std::string name)
        : tally_(tally), outer_(std::exchange(tally.part_, std::move(name))) {}
    ~Part() { tally_.part_ = outer_; }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    Tally& tally_;
    const std::string outer_;
  };

 private:
  const GpuRates rates_;
  std::string part_;
  std::map<std::pair<std::string, std::string>, Work> works_;
};

}  // namespace poseidon::bench
