#pragma once

#include <array>
#include <span>

namespace poseidon::net {

/// A tensor that updates rewrite, in one version or in two. With two, an update reads the current
/// one and writes the next one, and flip() has them trade roles, a second time back again. Neither
/// moves: which one is current depends only on whether the number of flips is even, so work that
/// was recorded with their addresses is right again after two flips.
class TensorVersions {
 public:
  TensorVersions() = default;
  explicit TensorVersions(std::span<float> only) : TensorVersions(only, only) {}
  TensorVersions(std::span<float> even, std::span<float> odd) : versions_{even, odd} {}

  std::span<float> current() const { return versions_[parity_]; }
  /// Where an update writes; the current one itself with one version.
  std::span<float> next() const { return versions_[1 - parity_]; }
  void flip() { parity_ = 1 - parity_; }

 private:
  std::array<std::span<float>, 2> versions_;
  size_t parity_ = 0;
};

}  // namespace poseidon::net
