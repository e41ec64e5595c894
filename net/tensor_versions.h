#pragma once

#include <array>
#include <span>

namespace poseidon::net {

/// A tensor with one or two versions. With two versions, an update reads the current version and
/// writes the next one; flip() exchanges them. The memory never moves, and two flips restore the
/// current version. So recorded work (GraphCapture in core/device.h), which contains the addresses
/// of the versions, is valid again after two flips.
template <class Element>
class VersionsOf {
 public:
  VersionsOf() = default;
  explicit VersionsOf(std::span<Element> only) : VersionsOf(only, only) {}
  VersionsOf(std::span<Element> even, std::span<Element> odd) : versions_{even, odd} {}

  std::span<Element> current() const { return versions_[parity_]; }
  /// The version that an update writes. If there is one version, next() is the current version.
  std::span<Element> next() const { return versions_[1 - parity_]; }
  void flip() { parity_ = 1 - parity_; }

 private:
  std::array<std::span<Element>, 2> versions_;
  size_t parity_ = 0;
};

using TensorVersions = VersionsOf<float>;

}  // namespace poseidon::net
