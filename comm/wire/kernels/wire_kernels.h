#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/philox.h"

/// The kernels of comm/wire, compiled once for each instruction set (core/isa.h). All instruction
/// sets compute the same bits.
namespace poseidon::comm {

/// The functions of comm/wire/integer_blocks.h. They use integers, and products of floats with
/// powers of two.
struct BlockKernels {
  void (*encode)(std::span<const float> values, uint64_t first, const RandomStream& random,
                 std::byte* blocks);
  uint64_t (*add)(const std::byte* a, const std::byte* b, uint64_t elements, std::byte* sum);
  void (*round)(const std::byte* blocks, uint64_t elements, uint64_t first,
                const RandomStream& random, std::byte* rounded);
  void (*decode)(const std::byte* blocks, std::span<float> values);
};

/// The functions of comm/wire/sparse.h, for numbers of one width. Memory needs no alignment.
struct SparseKernels {
  /// Counts the numbers that are not zero.
  uint64_t (*count)(const std::byte* numbers, uint64_t elements);
  /// Writes the bitmap, and to `values` the numbers that are not zero, in `bytes` bytes.
  void (*compress)(const std::byte* numbers, uint64_t elements, std::byte* bitmap,
                   std::byte* values, uint64_t bytes);
  /// Writes all numbers. The bitmap has a bit for each number of `values`, which has `bytes` bytes.
  void (*expand)(const std::byte* bitmap, const std::byte* values, uint64_t bytes,
                 uint64_t elements, std::byte* numbers);
};

struct WireKernels {
  BlockKernels blocks;
  SparseKernels sparse2, sparse4;  ///< by bytes of one number
};

// The entry points of the compiled code (third_party/instruction_sets.cmake).
namespace native {
WireKernels wire_kernels();
}
namespace v2 {
WireKernels wire_kernels();
}
namespace v3 {
WireKernels wire_kernels();
}
namespace v4 {
WireKernels wire_kernels();
}

/// The kernels of the selected instruction set.
WireKernels wire_kernels();

}  // namespace poseidon::comm
