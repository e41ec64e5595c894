#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/fields.h"
#include "core/philox.h"

namespace poseidon::layers {

enum class FillerType : int { kConstant, kUniform, kGaussian, kXavier, kHe };

/// How a parameter gets its first values.
struct Filler {
  FillerType type = FillerType::kConstant;
  double value = 0;                   ///< constant
  double minimum = -1, maximum = 1;   ///< uniform
  double mean = 0, deviation = 0.01;  ///< gaussian

  void describe(Fields& fields);

  /// Fills `values`. xavier: uniform in +-sqrt(3 / fan_in) (Glorot and Bengio 2010, as Caffe's);
  /// he: gaussian with variance 2 / fan_in (He et al. 2015).
  void fill(std::span<float> values, int64_t fan_in, RandomStream& random) const;

  static Filler constant(double value);
  static Filler of(FillerType type);
};

}  // namespace poseidon::layers
