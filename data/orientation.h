#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/image.h"

namespace poseidon::data {

/// Whether to apply the EXIF orientation of a JPEG file to its image.
enum class OrientationRule : int { kApply, kIgnore };

/// The operation that makes a stored image upright. First it reverses the order of the rows, of the
/// columns, or of both. Then, if `exchanges` is true, it exchanges rows and columns (transpose).
struct OrientationTransform {
  bool reverses_rows = false, reverses_columns = false, exchanges = false;

  bool is_none() const { return !reverses_rows && !reverses_columns && !exchanges; }
};

/// Returns the transform for an EXIF orientation of 1 to 8.
OrientationTransform orientation_transform_of(int orientation);

/// The orientation that a JPEG file stores, and the position of its two bytes in the file.
struct OrientationTag {
  int orientation = 1;      ///< 1 to 8
  size_t at = 0;            ///< byte offset in the file
  bool big_endian = false;  ///< byte order of the two bytes
};

/// Finds the orientation in the EXIF segment of a JPEG file: TIFF tag 0x0112 of the first
/// directory. Accepts any bytes. Returns nullopt if there is no such tag, or if segment, tag or
/// value do not follow the standard.
std::optional<OrientationTag> find_orientation(std::span<const std::byte> jpeg);

/// Returns a copy of a JPEG file. If the file stores an orientation, the copy stores 1 (upright).
std::vector<std::byte> without_orientation(std::span<const std::byte> jpeg);

/// Returns the box of the height x width stored image that `turn` maps to the box `upright`.
Box stored_box(const Box& upright, const OrientationTransform& turn, int64_t height, int64_t width);

/// Writes `stored`, transformed by `turn`, to `out`, which must be another image.
void apply_orientation(const Image& stored, const OrientationTransform& turn, Image& out);

}  // namespace poseidon::data
