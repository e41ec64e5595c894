#pragma once

#include <array>

#include "layers/layer_random.h"

namespace poseidon::layers {

enum class PoolingMethod : int { kMax, kAverage, kStochastic };
enum class PoolingRounding : int { kCeil, kFloor };

/// Windows that divide the cells of one axis evenly. Window i of n has the cells [floor(i * cells /
/// n), ceil((i + 1) * cells / n)). So two neighboring windows may share a cell.
struct EvenWindows {
  int64_t cells, windows;

  constexpr int64_t begin(int64_t window) const { return window * cells / windows; }
  constexpr int64_t end(int64_t window) const {
    return ((window + 1) * cells + windows - 1) / windows;
  }
};

/// Maximum or mean of windows, or a value of the window chosen at random.
///
/// With ceil rounding (Caffe's) the last window may extend beyond the padded edge. It always begins
/// inside the input, or in the padding before the input. The mean divides by the number of the
/// window's cells in the padded input, padding included (Caffe's rule). So a window that extends
/// beyond the padded edge has a smaller divisor. Maxima never come from padding. Windows that
/// divide the input evenly ("windows") are PyTorch's adaptive average pooling.
///
/// The stochastic method is from Zeiler and Fergus, "Stochastic Pooling for Regularization of Deep
/// Convolutional Neural Networks", 2013. In training it chooses a value of the window. The
/// probability of a value is the value divided by the window's sum. In testing it computes the mean
/// of the values, weighted by these probabilities. It never chooses padding. Values must be 0 or
/// more, as after a relu. For negative values the arithmetic does not change, as in Caffe. Training
/// chooses the first value at which the running sum is at least chance() * total sum. If no value
/// satisfies this, training chooses the last value. Testing computes the sum of squares divided by
/// the sum, or 0 if the sum is 0 or less. In testing this method chooses no cell, and the layer has
/// no backward pass.
class Pooling final : public Definition {
 public:
  std::string_view type() const override { return "pooling"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;

  /// Whether training must store the cell that each window chose.
  bool stores_chosen_cell() const { return method != PoolingMethod::kAverage; }
  bool has_gradient(Phase phase) const {
    return phase == Phase::kTrain || method != PoolingMethod::kStochastic;
  }
  /// The random words of a sample. `sample` is its index in the batch. `key` is the random_key() of
  /// the layer's name. Output (channel, position) uses word e % 4 of block e / 4, where e =
  /// position * channels + channel.
  static constexpr RandomStream stream_of(const StepParameters& numbers, uint64_t key,
                                          int64_t sample) {
    return random_words(RandomPurpose::kPooling, numbers, key, sample);
  }
  /// Converts a random word to a chance in (0, 1].
  static constexpr float chance(uint32_t word) { return 1 - RandomStream::unit(word); }

  PoolingMethod method = PoolingMethod::kMax;
  std::array<int64_t, 2> kernel{0, 0}, stride{1, 1};
  Sides padding;
  PoolingRounding rounding = PoolingRounding::kCeil;
  bool global = false;
  std::array<int64_t, 2> windows{0, 0};  ///< number of EvenWindows per axis; 0: use `kernel`

  bool is_even() const { return windows[0] > 0; }
  /// The windows of axis 0 (rows) or 1 (columns). Requires is_even().
  EvenWindows even_windows(int axis) const {
    return {input[2 + axis], windows[static_cast<size_t>(axis)]};
  }

  Shape input, output;  ///< set by infer

  /// Rows (axis 0) or columns (axis 1) of the last window that are beyond the input; at least 0.
  int64_t overhang(int axis) const;

 private:
  Shape infer_even();
};

}  // namespace poseidon::layers
