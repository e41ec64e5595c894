#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace poseidon {

/// Extents of a tensor, outermost first, at most four. Activations are (samples, channels, height,
/// width) or (samples, features); convolution weights (outputs, inputs/groups, height, width).
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

  /// Extents as an activation: samples, channels, and height and width (1 where the rank is lower).
  int64_t samples() const { return rank_ > 0 ? extents_[0] : 1; }
  int64_t channels() const { return rank_ > 1 ? extents_[1] : 1; }
  int64_t height() const { return rank_ > 2 ? extents_[2] : 1; }
  int64_t width() const { return rank_ > 3 ? extents_[3] : 1; }
  /// height * width
  int64_t area() const { return height() * width(); }
  /// Elements of one sample.
  int64_t sample_count() const { return channels() * area(); }

  bool operator==(const Shape&) const = default;

  /// "3x224x224"
  std::string text() const;

 private:
  std::array<int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

/// Order of an activation's elements in memory. All four are one form: channels are cut into blocks
/// of b, and element (n, c, p) with p = h * width + w lies at ((n * blocks + c / b) * area + p) * b
/// + c % b. Lanes of the last block beyond the last channel are padding, and always zero.
enum class Layout : uint8_t {
  kPlain,         ///< b = 1: nchw
  kChannelsLast,  ///< b = channels: nhwc
  kBlocked8,      ///< b = 8: nChw8c
  kBlocked16,     ///< b = 16: nChw16c
};

const char* layout_name(Layout layout);

/// An activation's shape and layout as the numbers kernels loop over.
struct Blocking {
  int64_t samples = 0;
  int64_t channels = 0;
  int64_t area = 0;
  int64_t block = 1;   ///< channels in a block
  int64_t blocks = 0;  ///< blocks in a sample, the last one padded

  Blocking() = default;
  Blocking(const Shape& shape, Layout layout);

  /// Elements in memory, padding included.
  int64_t count() const { return samples * blocks * area * block; }
  int64_t offset(int64_t sample, int64_t channel, int64_t position) const {
    return ((sample * blocks + channel / block) * area + position) * block + channel % block;
  }
};

/// Elements an activation takes in memory, padding included.
inline int64_t stored_count(const Shape& shape, Layout layout) {
  return Blocking(shape, layout).count();
}

}  // namespace poseidon
