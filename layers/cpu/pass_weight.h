#pragma once

#include <cstdint>
#include <optional>

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
  /// Copies squares: blocks of 16 inputs and 16 outputs, or of 8 and 8.
  struct OwnCopy {
    int64_t side;
    int64_t bytes;                                ///< of an element of the copy
    void (*copy)(const float* kept, void* read);  ///< copies one square
  };
  static std::optional<OwnCopy> own_copy(const Dims& shape, const MemoryDesc& kept,
                                         const MemoryDesc& read);

  MemoryDesc read_;
  bool is_kept_ = true;
  std::optional<OwnCopy> own_copy_;  ///< Poseidon's own code; nullopt: oneDNN's
  PreparedReorder copy_;
};

}  // namespace poseidon::layers::cpu
