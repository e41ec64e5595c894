#pragma once

#include <cstdint>

#include "layers/cpu/vectors.h"

namespace poseidon::layers::cpu {

/// Mean and sum of squared deviations of a stream of values, merged pairwise (Chan, Golub and
/// LeVeque 1979). This method reads memory once, and avoids the cancellation of E[x^2] - E[x]^2.
struct ValueMoments {
  double count = 0, mean = 0, squares = 0;

  void merge(const ValueMoments& other) {
    const double total = count + other.count, delta = other.mean - mean;
    mean += delta * other.count / total;
    squares += other.squares + delta * delta * count * other.count / total;
    count = total;
  }
};

/// For each lane: sums of (value - center) and of (value - center)^2 over one tile. `center` is the
/// lane's mean in the precision of Float. lane() adds the mean distance to `center`. The error of
/// the resulting mean is then small compared with the deviation, even if the mean is far from zero.
template <class Float>
struct TileMoments {
  double count;
  Float center{}, distances{}, squares{};

  ValueMoments lane(size_t i) const {
    const double sum = static_cast<double>(distances[i]), rest = sum / count;
    return {count, static_cast<double>(center[i]) + rest,
            static_cast<double>(squares[i]) - sum * rest};
  }
};

/// The moments of `positions` vectors that are `stride` elements apart. Requires positions > 0.
template <class Float, class Element, class Stride>
TileMoments<Float> tile_moments(const Element* tile, int64_t positions, Stride stride) {
  TileMoments<Float> sums{.count = static_cast<double>(positions)};
  for (int64_t p = 0; p < positions; ++p) sums.center += load<Float>(tile + p * stride);
  sums.center *= 1 / static_cast<float>(positions);
  Float distances{}, squares{};
  for (int64_t p = 0; p < positions; ++p) {
    const Float distance = load<Float>(tile + p * stride) - sums.center;
    distances += distance;
    squares += distance * distance;
  }
  sums.distances = distances;
  sums.squares = squares;
  return sums;
}

}  // namespace poseidon::layers::cpu
