#pragma once

#include <array>
#include <span>

namespace poseidon::net {

/// A tensor with one or two versions. With two versions, an update reads the current version and
/// writes the next one; flip() exchanges them. The memory never moves, and two flips restore the
/// current version. So recorded work (GraphCapture in core/device.h), which contains the addresses
/// of the versions, is valid again after two flips.
class TensorVersions {
 public:
  TensorVersions() = default;
  explicit TensorVersions(std::span<float> only) : TensorVersions(only, only) {}
  TensorVersions(std::span<float> even, std::span<float> odd) : versions_{even, odd} {}

  std::span<float> current() const { return versions_[parity_]; }
  /// The version that an update writes. If there is one version, next() is the current version.
  std::span<float> next() const { return versions_[1 - parity_]; }
  void flip() { parity_ = 1 - parity_; }

 private:
  std::array<std::span<float>, 2> versions_;
  size_t parity_ = 0;
};

}  // namespace poseidon::net
