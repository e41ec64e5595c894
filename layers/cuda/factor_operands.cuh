#pragma once

#include "layers/convolution.h"
#include "layers/cuda/divisor.cuh"
#include "layers/cuda/map.cuh"

/// The operands of a gradient from factors. Each operand is a matrix with one row for each sample
/// and position. A thread reads packs of rows, always at the same columns. So it computes the
/// positions of its columns once (columns_at).
namespace poseidon::layers::cuda {

/// A matrix in memory. The matrices of all groups lie side by side.
struct FactorMatrix {
  static constexpr uint32_t kWidth = kPack<float>;

  const float* values;
  uint32_t rows, columns;  ///< of one group
  uint32_t stride;         ///< values from one row to the next: the columns of all groups

  /// Adjacent columns of a group.
  struct Columns {
    uint32_t first;  ///< index in the row of all groups
    uint32_t count;  ///< columns that the matrix has, at most kWidth
  };

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(values, bytes_of_elements<float>(int64_t{rows} * stride));
  }

  POSEIDON_DEVICE Columns columns_at(uint32_t group, uint32_t column) const {
    const uint32_t left = column < columns ? columns - column : 0;
    return {group * columns + column, left < kWidth ? left : kWidth};
  }

  /// Values outside the matrix are zero.
  POSEIDON_DEVICE Pack<float> load(uint32_t row, const Columns& at) const {
    Pack<float> pack{};
    if (row >= rows || at.count == 0) return pack;
    const float* from = values + int64_t{row} * stride + at.first;
    if (columns % kWidth == 0) return load_pack(from);
#pragma unroll
    for (uint32_t i = 0; i < kWidth; ++i)
      if (i < at.count) pack[static_cast<int>(i)] = from[i];
    return pack;
  }
};

/// The patches of a convolution's input, which is channels last. A row has the patch of one
/// position of the output, in the order (kernel height, kernel width, channels of a group). Values
/// outside the image are zero.
struct FactorPatches {
  static constexpr uint32_t kWidth = kPack<float>;

  /// One axis of the image.
  struct Axis {
    uint32_t extent, stride, dilation, padding;

    static Axis of(const Convolution& convolution, size_t axis) {
      const int64_t extent = axis == 0 ? convolution.input.height() : convolution.input.width();
      return {static_cast<uint32_t>(extent), static_cast<uint32_t>(convolution.stride[axis]),
              static_cast<uint32_t>(convolution.dilation[axis]),
              static_cast<uint32_t>(convolution.padding.before[axis])};
    }
  };

  const float* values;
  uint32_t rows, columns;
  uint32_t samples, channels, channels_of_all;  ///< channels: of a group, and of all groups
  uint32_t kernel_width;
  Axis vertical, horizontal;
  Divisor output_height, output_width;

  static FactorPatches of(const Convolution& convolution, const float* values) {
    const auto number = [](int64_t value) { return static_cast<uint32_t>(value); };
    const Shape &input = convolution.input, &output = convolution.output;
    const int64_t channels = input.channels() / convolution.groups;
    return {.values = values,
            .rows = number(output.samples() * output.area()),
            .columns = number(convolution.kernel[0] * convolution.kernel[1] * channels),
            .samples = number(input.samples()),
            .channels = number(channels),
            .channels_of_all = number(input.channels()),
            .kernel_width = number(convolution.kernel[1]),
            .vertical = Axis::of(convolution, 0),
            .horizontal = Axis::of(convolution, 1),
            .output_height = Divisor(number(output.height())),
            .output_width = Divisor(number(output.width()))};
  }

  /// A column's cell and value, relative to the first cell of a patch without padding. The
  /// coordinates are modulo 2^32.
  struct Column {
    uint32_t y, x;
    int64_t offset;
  };
  struct Columns {
    Column of[kWidth];
  };

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(values, bytes_of_elements<float>(int64_t{samples} * vertical.extent *
                                                   horizontal.extent * channels_of_all));
  }

  POSEIDON_DEVICE Columns columns_at(uint32_t group, uint32_t column) const {
    Columns at;
#pragma unroll
    for (uint32_t i = 0; i < kWidth; ++i) at.of[i] = column_at(group, column + i);
    return at;
  }

  POSEIDON_DEVICE Column column_at(uint32_t group, uint32_t column) const {
    if (column >= columns) return {.y = kOutside, .x = 0, .offset = 0};
    const uint32_t tap = column / channels;
    Column at;
    at.y = tap / kernel_width * vertical.dilation - vertical.padding;
    at.x = tap % kernel_width * horizontal.dilation - horizontal.padding;
    at.offset =
        (int64_t{static_cast<int32_t>(at.y)} * horizontal.extent + static_cast<int32_t>(at.x)) *
            channels_of_all +
        group * channels + column % channels;
    return at;
  }

  POSEIDON_DEVICE Pack<float> load(uint32_t row, const Columns& at) const {
    Pack<float> pack{};
    if (row >= rows) return pack;
    uint32_t sample = row;
    const uint32_t x = output_width.take_from(sample) * horizontal.stride;
    const uint32_t y = output_height.take_from(sample) * vertical.stride;
    const float* from = values + ((int64_t{sample} * vertical.extent + y) * horizontal.extent + x) *
                                     channels_of_all;
    if (channels % kWidth == 0)
      return is_inside(y, x, at.of[0]) ? load_pack(from + at.of[0].offset) : pack;
#pragma unroll
    for (uint32_t i = 0; i < kWidth; ++i)
      if (is_inside(y, x, at.of[i])) pack[static_cast<int>(i)] = from[at.of[i].offset];
    return pack;
  }

 private:
  static constexpr uint32_t kOutside = 1U << 31;  ///< a row below every image

  POSEIDON_DEVICE bool is_inside(uint32_t y, uint32_t x, const Column& at) const {
    return y + at.y < vertical.extent && x + at.x < horizontal.extent;
  }
};

}  // namespace poseidon::layers::cuda
