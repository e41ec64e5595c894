#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/device.h"
#include "net/tensor_memory.h"

namespace poseidon::trainer {

/// Staging memory of a layer's tensors, with one slot for each step in flight. Within a slot, the
/// tensors have the layout of net::TensorMemory. So one copy can move neighbors (JoinedCopies).
class TensorSlots {
 public:
  TensorSlots() = default;
  /// `floats`: size of each tensor; 0: no memory.
  TensorSlots(Device& device, std::span<const size_t> floats, size_t steps)
      : floats_(floats.begin(), floats.end()) {
    const size_t slot_bytes = bytes(floats, 1);
    for (size_t step = 0; slot_bytes > 0 && step < steps; ++step)
      slots_.push_back(device.allocate(slot_bytes, MemoryKind::kStaging, "sums"));
  }

  /// Bytes of memory of the slots.
  static size_t bytes(std::span<const size_t> floats, size_t steps) {
    size_t all = 0;
    for (const size_t count : floats) all += net::TensorMemory::padded(count);
    return steps * all * sizeof(float);
  }

  bool has(uint32_t tensor) const { return floats_[tensor] > 0; }
  std::span<float> of(uint32_t tensor, uint64_t step) const {
    size_t first = 0;
    for (uint32_t before = 0; before < tensor; ++before)
      first += net::TensorMemory::padded(floats_[before]);
    return slots_[step % slots_.size()].as<float>().subspan(first, floats_[tensor]);
  }

 private:
  std::vector<size_t> floats_;  ///< by tensor
  std::vector<Buffer> slots_;   ///< by step modulo the number of slots
};

}  // namespace poseidon::trainer
