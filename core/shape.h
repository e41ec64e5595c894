#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace poseidon {

/// The extents of a tensor, outermost first, at most four. Activations are (samples, channels,
/// height, width) or (samples, features). Convolution weights are (outputs, inputs/groups, height,
/// width).
class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<int64_t> extents)
      : Shape(std::span(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const int64_t> extents);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return extents_[static_cast<size_t>(axis)]; }
  int64_t& operator[](int axis) { return extents_[static_cast<size_t>(axis)]; }
  std::span<const int64_t> extents() const { return {extents_.data(), static_cast<size_t>(rank_)}; }

  /// Number of elements; 1 for a scalar (rank 0).
  int64_t count() const;

  /// The extents read as an activation. Axes beyond the rank have extent 1.
  int64_t samples() const { return rank_ > 0 ? extents_[0] : 1; }
  int64_t channels() const { return rank_ > 1 ? extents_[1] : 1; }
  int64_t height() const { return rank_ > 2 ? extents_[2] : 1; }
  int64_t width() const { return rank_ > 3 ? extents_[3] : 1; }
  int64_t area() const { return height() * width(); }
  /// Number of elements in one sample.
  int64_t sample_count() const { return channels() * area(); }

  bool operator==(const Shape&) const = default;

  /// The extents as text, such as "3x224x224"; "scalar" for rank 0.
  std::string text() const;

 private:
  std::array<int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

/// The order of an activation's elements in memory. All four layouts have one form: channels are
/// divided into blocks of b. Element (n, c, p) with p = h * width + w has the index ((n * blocks +
/// c / b) * area + p) * b + c % b. In the last block, elements beyond the last channel are padding
/// and always zero.
enum class Layout : uint8_t {
  kPlain,         ///< b = 1: nchw
  kChannelsLast,  ///< b = channels: nhwc
  kBlocked8,      ///< b = 8: nChw8c
  kBlocked16,     ///< b = 16: nChw16c
};

const char* layout_name(Layout layout);

/// An activation's shape and layout as loop bounds for kernels.
struct Blocking {
  int64_t samples = 0;
  int64_t channels = 0;
  int64_t area = 0;
  int64_t block = 1;   ///< channels in one block
  int64_t blocks = 0;  ///< blocks in one sample, the padded last one included

  Blocking() = default;
  Blocking(const Shape& shape, Layout layout);

  /// Number of elements in memory, padding included.
  int64_t count() const { return samples * blocks * area * block; }
  int64_t offset(int64_t sample, int64_t channel, int64_t position) const {
    return ((sample * blocks + channel / block) * area + position) * block + channel % block;
  }
};

/// Number of elements of an activation in memory, padding included.
inline int64_t stored_count(const Shape& shape, Layout layout) {
  return Blocking(shape, layout).count();
}

}  // namespace poseidon
