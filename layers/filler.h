#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/fields.h"
#include "core/philox.h"
#include "core/shape.h"

namespace poseidon::layers {

enum class FillerType : int {
  kConstant,
  kUniform,
  kGaussian,
  kXavier,
  kHe,
  kPositiveUnitball,
  kBilinear
};

/// How a parameter gets its first values.
struct Filler {
  FillerType type = FillerType::kConstant;
  double value = 0;                   ///< constant
  double minimum = -1, maximum = 1;   ///< uniform
  double mean = 0, deviation = 0.01;  ///< gaussian
  int64_t sparse = 0;                 ///< gaussian: weights that stay, of each input; 0: all

  void describe(Fields& fields);

  /// What keeps it from filling a parameter of this shape; usually empty.
  std::string problem_with(const Shape& shape) const;
  /// Fills `values`, a parameter of this shape in canonical order. xavier: uniform in
  /// +-sqrt(3 / fan_in) (Glorot and Bengio 2010, as Caffe's); he: gaussian with variance 2 / fan_in
  /// (He et al. 2015); positive_unitball: uniform in [0, 1), then each output's divided by their
  /// sum; bilinear: the kernel by which a deconvolution enlarges images (Long et al. 2015). Of a
  /// sparse gaussian each weight stays with the probability sparse / outputs, the others are 0.
  void fill(std::span<float> values, const Shape& shape, int64_t fan_in,
            RandomStream& random) const;

  static Filler constant(double value);
  static Filler of(FillerType type);
};

}  // namespace poseidon::layers
