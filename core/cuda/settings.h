#pragma once

#include <cstdint>

namespace poseidon::cuda {

/// How precisely products are computed.
enum class Precision : uint8_t {
  kFp32,  ///< as fp32 says
  kTf32,  ///< factors rounded to ten bits of mantissa, sums in fp32
  kBf16,  ///< activations and factors as bf16, sums in fp32
};

/// What becomes of work that comes again (core/device.h: Repeats).
enum class Graphs : uint8_t {
  kNone,      ///< it is issued each time
  kUsed,      ///< from the second time on it is issued as a graph
  kCompared,  ///< that too, and it is compared with what would be issued; for tests
};

struct Settings {
  Precision precision = Precision::kFp32;
  /// Only algorithms that come to the same bits every time.
  bool deterministic = true;
  Graphs graphs = Graphs::kUsed;
};

}  // namespace poseidon::cuda
