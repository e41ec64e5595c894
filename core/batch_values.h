#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace poseidon {

/// Normalization of pixels, by channel: (value - mean) * factor.
struct Normalization {
  std::vector<float> mean, factor;
};

/// A view of a batch's samples: either normalized floats or raw pixels.
struct BatchValues {
  std::span<const float> floats;            ///< (n, c, h, w), normalized; empty for pixels
  std::span<const uint8_t> pixels;          ///< (n, h, w, c), not yet normalized; empty for floats
  const Normalization* normalization = {};  ///< for `pixels`; null: the batch is in `floats`

  bool are_pixels() const { return normalization != nullptr; }
  size_t count() const { return are_pixels() ? pixels.size() : floats.size(); }
  std::span<const std::byte> bytes() const {
    return are_pixels() ? std::as_bytes(pixels) : std::as_bytes(floats);
  }
  /// A view of the same batch in `memory`, which holds a copy of bytes().
  BatchValues at(std::span<const std::byte> memory) const {
    if (!are_pixels())
      return {.floats = {reinterpret_cast<const float*>(memory.data()), floats.size()},
              .pixels = {}};
    return {.floats = {},
            .pixels = {reinterpret_cast<const uint8_t*>(memory.data()), pixels.size()},
            .normalization = normalization};
  }
};

}  // namespace poseidon
