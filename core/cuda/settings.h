#pragma once

#include <cstdint>

namespace poseidon {
class Log;
}

namespace poseidon::cuda {

/// The precision of matrix products and convolutions.
enum class Precision : uint8_t {
  kFp32,  ///< operands and sums in fp32
  kTf32,  ///< operands rounded to ten mantissa bits, sums in fp32
  kBf16,  ///< activations and operands in bf16, sums in fp32
};

/// How recurring work is issued (core/device.h: GraphCapture).
enum class Graphs : uint8_t {
  kNone,      ///< operation by operation each time
  kUsed,      ///< as a graph from the second time on
  kCompared,  ///< as kUsed; also checks each time that the operations are unchanged; for tests
};

struct Settings {
  Precision precision = Precision::kFp32;
  /// Use only algorithms with bitwise reproducible results.
  bool deterministic = true;
  Graphs graphs = Graphs::kUsed;
  Log* log = nullptr;  ///< receives warnings; must outlive the device; null: no messages
};

}  // namespace poseidon::cuda
