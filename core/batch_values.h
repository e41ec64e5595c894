#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace poseidon {

/// Per channel: (value - mean) * factor.
struct Normalization {
  std::vector<float> mean, factor;
};

/// The samples of a batch, in one of two forms.
struct BatchValues {
  std::span<const float> floats;            ///< plain (n, c, h, w), as the net takes them; or
  std::span<const uint8_t> pixels;          ///< (n, h, w, c), still to be normalized
  const Normalization* normalization = {};  ///< of pixels; null: they are floats

  bool are_pixels() const { return normalization != nullptr; }
  size_t count() const { return are_pixels() ? pixels.size() : floats.size(); }
  std::span<const std::byte> bytes() const {
    return are_pixels() ? std::as_bytes(pixels) : std::as_bytes(floats);
  }
  /// The same batch, copied to other memory.
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
