#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/image.h"

namespace poseidon::data {

/// Whether the EXIF orientation of a JPEG file turns its image.
enum class OrientationRule : int { kApply, kIgnore };

/// The way from an image as a file stores it to the upright one: rows and columns of the stored
/// image are reversed first, then exchanged.
struct Turn {
  bool reverses_rows = false, reverses_columns = false, exchanges = false;

  bool is_none() const { return !reverses_rows && !reverses_columns && !exchanges; }
};

/// The turn of an EXIF orientation, 1 to 8.
Turn turn_of(int orientation);

/// The orientation that a JPEG file stores, and the index of its two bytes in the file.
struct OrientationTag {
  int orientation = 1;  ///< 1 to 8
  size_t at = 0;
  bool big_endian = false;
};

/// Finds the orientation in the EXIF segment of a JPEG file: TIFF tag 0x0112 of the first
/// directory. Any bytes are allowed; none is found where segment, tag or value are not as the
/// standard has them.
std::optional<OrientationTag> find_orientation(std::span<const std::byte> jpeg);

/// Copies a JPEG file, with the orientation 1 in place of another one.
std::vector<std::byte> without_orientation(std::span<const std::byte> jpeg);

/// The box of the stored image, of height x width, that `upright` is in the turned one.
Box stored_box(const Box& upright, const Turn& turn, int64_t height, int64_t width);

/// Writes the turned `stored` to `out`, another image.
void turn_image(const Image& stored, const Turn& turn, Image& out);

}  // namespace poseidon::data
