#pragma once

#include <array>

#include "layers/layer_random.h"

namespace poseidon::layers {

enum class PoolingMethod : int { kMax, kAverage, kStochastic };
enum class PoolingRounding : int { kCeil, kFloor };

/// Windows that share the cells of one axis evenly: window i of n has those from floor(i * cells /
/// n) up to ceil((i + 1) * cells / n), so that neighbours may have one in common.
struct EvenWindows {
  int64_t cells, windows;

  constexpr int64_t begin(int64_t window) const { return window * cells / windows; }
  constexpr int64_t end(int64_t window) const {
    return ((window + 1) * cells + windows - 1) / windows;
  }
};

/// Maximum or mean over windows, or one of a window's values, chosen at random. With ceil rounding
/// (Caffe's) the last window may hang over the padded edge, but always begins inside the input or
/// its left padding. The mean divides by the part of the window that lies in the padded input,
/// padding counted (Caffe's rule): a window that hangs over the padded edge has a smaller divisor.
/// Maxima never come from padding. Windows that share the input evenly ("windows") are PyTorch's
/// adaptive average pooling.
///
/// The stochastic method (Zeiler and Fergus, "Stochastic Pooling for Regularization of Deep
/// Convolutional Neural Networks", 2013) takes, in training, a value of the window with a
/// probability that is its share of the window's sum; in testing, the mean of the values, weighted
/// by these probabilities. Padding is never taken. Values are to be 0 or more, as a relu gives
/// them. What comes of others is what the arithmetic says, as in Caffe: in training the first value
/// at which the sum so far is no less than the chance times the sum of all, the last one where
/// there is none; in testing the sum of squares by the sum, 0 where that is 0 or less. What testing
/// gives has no gradient here: the cells are not kept.
class Pooling final : public Definition {
 public:
  std::string_view type() const override { return "pooling"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;

  /// Whether training needs to know of each window which cell was taken.
  bool takes_one_cell() const { return method != PoolingMethod::kAverage; }
  bool has_gradient(Phase phase) const {
    return phase == Phase::kTrain || method != PoolingMethod::kStochastic;
  }
  /// The random words of one sample, which counts in its batch. That of output (channel, position)
  /// is word e % 4 of block e / 4, e = position * channels + channel.
  static constexpr RandomStream stream_of(const StepNumbers& numbers, uint64_t key,
                                          int64_t sample) {
    return random_words(RandomPurpose::kPooling, numbers, key, sample);
  }
  /// The chance that a word stands for, in (0, 1].
  static constexpr float chance(uint32_t word) { return 1 - RandomStream::unit(word); }

  PoolingMethod method = PoolingMethod::kMax;
  std::array<int64_t, 2> kernel{0, 0}, stride{1, 1};
  Sides padding;
  PoolingRounding rounding = PoolingRounding::kCeil;
  bool global = false;
  std::array<int64_t, 2> windows{0, 0};  ///< that share the input evenly; 0: there is a kernel

  bool is_even() const { return windows[0] > 0; }
  /// Of axis 0, the rows, or 1; where is_even().
  EvenWindows even_windows(int axis) const {
    return {input[2 + axis], windows[static_cast<size_t>(axis)]};
  }

  Shape input, output;  ///< set by infer

  /// Rows (axis 0) or columns (axis 1) that the last window reaches beyond the input, at least 0.
  int64_t overhang(int axis) const;

 private:
  Shape infer_even();
};

}  // namespace poseidon::layers
