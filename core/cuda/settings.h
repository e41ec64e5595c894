#pragma once

#include <cstddef>
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
  kUsed,      ///< as a graph from the second time on, except for short work
  kCompared,  ///< as kUsed; also checks each time that the operations are unchanged; for tests
};

struct Settings {
  Precision precision = Precision::kFp32;
  /// Use only algorithms with bitwise reproducible results.
  bool deterministic = true;
  Graphs graphs = Graphs::kUsed;
  /// Recurring work with fewer operations than this is issued operation by operation: the launch of
  /// a graph costs about as much as the launches of a few kernels.
  size_t min_graph_operations = 4;
  Log* log = nullptr;  ///< receives warnings; must outlive the device; null: no messages
};

}  // namespace poseidon::cuda
