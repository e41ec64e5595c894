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

/// The distribution of a parameter's initial values.
struct Filler {
  FillerType type = FillerType::kConstant;
  double value = 0;                   ///< constant
  double minimum = -1, maximum = 1;   ///< uniform
  double mean = 0, deviation = 0.01;  ///< gaussian
  int64_t sparse = 0;                 ///< gaussian: nonzero weights per input, on average; 0: all

  void describe(Fields& fields);

  /// The reason why this filler cannot fill a parameter of this shape; "" if it can.
  std::string problem_with(const Shape& shape) const;
  /// Fills `values`, a parameter of this shape in canonical order. Distributions that the fields do
  /// not describe:
  ///   * gaussian with `sparse`: sets a weight to 0 with probability 1 - sparse / outputs
  ///   * xavier: uniform in +-sqrt(3 / fan_in) (Glorot and Bengio 2010, in Caffe's form)
  ///   * he: gaussian with variance 2 / fan_in (He et al. 2015)
  ///   * positive_unitball: uniform in [0, 1), then scaled so that an output's weights sum to 1
  ///   * bilinear: the kernel of a deconvolution that enlarges images (Long et al. 2015)
  void fill(std::span<float> values, const Shape& shape, int64_t fan_in,
            RandomStream& random) const;

  static Filler constant(double value);
  static Filler of(FillerType type);
};

}  // namespace poseidon::layers
