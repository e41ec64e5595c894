#pragma once

#include <array>
#include <span>

namespace poseidon::net {

/// A tensor with one version or two. With two versions, an update reads the current one and writes
/// the next one; flip() swaps their roles. The memory never moves. Only the parity of the number of
/// flips determines the current version. Therefore work recorded with their addresses is valid
/// again after two flips.
class TensorVersions {
 public:
  TensorVersions() = default;
  explicit TensorVersions(std::span<float> only) : TensorVersions(only, only) {}
  TensorVersions(std::span<float> even, std::span<float> odd) : versions_{even, odd} {}

  std::span<float> current() const { return versions_[parity_]; }
  /// The version that an update writes. With one version, it is the current one.
  std::span<float> next() const { return versions_[1 - parity_]; }
  void flip() { parity_ = 1 - parity_; }

 private:
  std::array<std::span<float>, 2> versions_;
  size_t parity_ = 0;
};

}  // namespace poseidon::net
