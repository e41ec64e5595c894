#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "core/cpu/thread_team.h"
#include "core/tensor.h"

namespace poseidon::layers::cpu {

/// The geometry of a convolution by Winograd's method. Stride and dilation are 1. The number of
/// channels of a group is a multiple of lanes().
struct WinogradGeometry {
  int64_t kernel = 0;                    ///< r, the kernel's height and width: 3 or 5
  std::array<int64_t, 2> padding{0, 0};  ///< less than r
  int64_t groups = 1;
  Shape input, output;  ///< (samples, channels, height, width)

  /// Adjacent channels in activations and weights: the block of the blocked layout.
  static int64_t lanes();

  /// The number of tiles that cover `outputs` rows or columns of outputs.
  int64_t tiles_along(int64_t outputs) const { return (outputs + 6 - kernel) / (7 - kernel); }
  int64_t tile_rows() const { return tiles_along(output.height()); }
  int64_t tile_columns() const { return tiles_along(output.width()); }
  int64_t tiles() const { return output.samples() * tile_rows() * tile_columns(); }

  /// The geometry of the convolution that computes the input's gradient from the output's gradient.
  WinogradGeometry of_backward_data() const;
};

/// Convolution by Winograd's minimal filtering F(m x m, r x r), m + r = 7 (A. Lavin and S. Gray,
/// "Fast Algorithms for Convolutional Neural Networks", arXiv 1509.09308, section 4). The input is
/// divided into tiles of 6 x 6 that overlap by r - 1. Tiles and weight are transformed into a basis
/// of 36 elements. In this basis, convolution is one product over the channels for each element.
/// The products are transformed back to m x m outputs. There are 36 products instead of 100 for r =
/// 5, or of 144 for r = 3.
///
/// This is Poseidon's own code. oneDNN's Winograd code supports only kernels of 3, and needs the
/// weight in other orders. Time of all three passes in ms on one Zen 4 core. Columns: this code,
/// oneDNN 2.6's Winograd method, oneDNN 2.6's direct method.
///   8x64x56x56 to 64, r = 3       19.6    21.1    50.2
///   8x128x28x28 to 128, r = 3     17.2    20.1    47.7
///   8x512x14x14 to 512, r = 3     89.3    92.6   192.6
///   8x512x7x7 to 512, r = 3       31.9    35.2    45.2
///   100x32x16x16 to 32, r = 5     21.9       -    29.9
///   32x48x27x27 to 128, r = 5     98.8       -   172.8
///
/// Activations are blocked by n = lanes(): 16 with AVX-512, else 8. The weight is OIhw16i16o or
/// OIhw8i8o: [outputs / n][inputs / n][r][r][n inputs][n outputs]. With groups, each group has such
/// a weight, one after another (gOIhw16i16o). forward() and backward_weights() overwrite their
/// results. Scratch need not be initialized. The bits do not depend on the number of threads.
class Winograd {
 public:
  /// `activations`: the type of input and output; all arithmetic is fp32.
  static std::unique_ptr<Winograd> make(const WinogradGeometry& geometry, DataType activations,
                                        poseidon::cpu::ThreadTeam& team);
  virtual ~Winograd() = default;

  virtual size_t forward_scratch_bytes() const = 0;
  virtual size_t backward_weights_scratch_bytes() const = 0;

  /// Optional work of forward().
  struct Extras {
    const float* bias = nullptr;
    std::optional<float> relu = {};  ///< the negative slope
    /// Whether to rotate the kernels by 180 degrees. Used for backward data, with the geometry of
    /// of_backward_data() and the forward pass's weight as OIhw16o16i or OIhw8o8i (with groups:
    /// gOIhw16o16i).
    bool turned = false;
  };
  virtual void forward(const void* input, const float* weight, const Extras& extras, void* output,
                       std::byte* scratch) const = 0;
  /// Computes the gradients of the weight and, if `bias` is not null, of the bias.
  virtual void backward_weights(const void* input, const void* output_gradient, float* weight,
                                float* bias, std::byte* scratch) const = 0;
};

}  // namespace poseidon::layers::cpu
