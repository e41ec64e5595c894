#pragma once

#include <bit>
#include <cstdint>

#include "core/cuda/kernel.cuh"

namespace poseidon::layers::cuda {

/// Divides by a number that is fixed before the kernel starts. A multiplication and a shift replace
/// the division (Granlund and Montgomery, "Division by Invariant Integers using Multiplication",
/// PLDI'94). On a GPU, an integer division needs about twenty instructions.
class Divisor {
 public:
  explicit Divisor(uint32_t divisor)
      : divisor_(divisor), shift_(static_cast<uint32_t>(std::bit_width(divisor - 1))) {
    const uint64_t beyond = (uint64_t{1} << shift_) - divisor;
    multiplier_ = static_cast<uint32_t>((beyond << 32) / divisor + 1);
  }

  constexpr uint32_t value() const { return divisor_; }
  POSEIDON_DEVICE uint32_t quotient(uint32_t n) const {
    const uint32_t high = static_cast<uint32_t>(uint64_t{n} * multiplier_ >> 32);
    return static_cast<uint32_t>((uint64_t{high} + n) >> shift_);
  }
  /// Replaces `n` with the quotient and returns the remainder.
  POSEIDON_DEVICE uint32_t take_from(uint32_t& n) const {
    const uint32_t whole = quotient(n), rest = n - whole * divisor_;
    n = whole;
    return rest;
  }

 private:
  uint32_t divisor_, shift_, multiplier_;
};

}  // namespace poseidon::layers::cuda
