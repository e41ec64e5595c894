#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/philox.h"

/// The functions of comm/wire/integer_blocks.h, compiled once for each instruction set
/// (core/isa.h). All instruction sets compute the same bits: the functions use integers, and
/// products of floats with powers of two.
namespace poseidon::comm {

struct BlockKernels {
  void (*encode)(std::span<const float> values, uint64_t first, const RandomStream& random,
                 std::byte* blocks);
  uint64_t (*add)(const std::byte* a, const std::byte* b, uint64_t elements, std::byte* sum);
  void (*round)(const std::byte* blocks, uint64_t elements, uint64_t first,
                const RandomStream& random, std::byte* rounded);
  void (*decode)(const std::byte* blocks, std::span<float> values);
};

// The entry points of the compiled code (third_party/instruction_sets.cmake).
namespace native {
BlockKernels block_kernels();
}
namespace v2 {
BlockKernels block_kernels();
}
namespace v3 {
BlockKernels block_kernels();
}
namespace v4 {
BlockKernels block_kernels();
}

}  // namespace poseidon::comm
