#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace poseidon::comm {

/// Values by index; take() frees the index for reuse.
template <class Value>
class Pool {
 public:
  uint32_t put(Value value) {
    if (free_.empty()) {
      values_.push_back(std::move(value));
      return static_cast<uint32_t>(values_.size() - 1);
    }
    const uint32_t index = free_.back();
    free_.pop_back();
    values_[index] = std::move(value);
    return index;
  }
  Value take(uint32_t index) {
    free_.push_back(index);
    return std::exchange(values_[index], Value());
  }
  Value& operator[](uint32_t index) { return values_[index]; }

 private:
  std::vector<Value> values_;
  std::vector<uint32_t> free_;
};

}  // namespace poseidon::comm
