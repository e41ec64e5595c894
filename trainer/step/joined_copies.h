#pragma once

#include <span>

#include "core/device.h"
#include "net/tensor_memory.h"

namespace poseidon::trainer {

/// Issues copies of tensors. It joins successive copies into one if the tensors are neighbors in
/// the source and in the destination. Source and destination must be parts of a net::TensorMemory
/// or TensorSlots. The joined copy includes the padding between the tensors.
class JoinedCopies {
 public:
  explicit JoinedCopies(Device& device) : device_(device) {}

  void add(std::span<const float> from, std::span<float> to) {
    const size_t before = net::TensorMemory::padded(from_.size());
    if (!from_.empty() && from.data() == from_.data() + before && to.data() == to_ + before) {
      from_ = {from_.data(), before + from.size()};
      return;
    }
    issue();
    from_ = from;
    to_ = to.data();
  }
  /// Issues the copies that are not issued yet. Call it after the last add().
  void issue() {
    if (!from_.empty()) device_.copy(from_, {to_, from_.size()});
    from_ = {};
  }

 private:
  Device& device_;
  std::span<const float> from_;  ///< the copy that is not issued yet
  float* to_ = nullptr;
};

}  // namespace poseidon::trainer
