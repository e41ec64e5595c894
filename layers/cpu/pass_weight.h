#pragma once

#include <cstdint>
#include <functional>

#include "layers/cpu/scratch.h"

namespace poseidon::layers::cpu {

using poseidon::cpu::Dims;

/// A weight in the form that one pass reads: the layer's weight itself, or a copy in another order
/// or type. In the latter case, each get() makes a new copy.
class PassWeight {
 public:
  PassWeight() = default;
  /// `shape` is the shape of `kept` and `read`: (groups,) outputs, inputs, kernel.
  PassWeight(CpuDevice& device, const Dims& shape, const MemoryDesc& kept, const MemoryDesc& read);

  const MemoryDesc& order() const { return read_; }
  size_t scratch_bytes() const { return is_kept_ ? 0 : Scratch::rounded(read_.get_size()); }
  void* get(CpuDevice& device, float* kept, Scratch& scratch) const;

 private:
  /// Copies one square of 16 inputs and 16 outputs.
  using CopySquare = void (*)(const float* kept, uint32_t* read);
  static CopySquare own_copy(const Dims& shape, const MemoryDesc& kept, const MemoryDesc& read);

  MemoryDesc read_;
  bool is_kept_ = true;
  CopySquare copy_square_ = nullptr;  ///< Poseidon's own code; nullptr: oneDNN's
  PreparedReorder copy_;
};

}  // namespace poseidon::layers::cpu
