#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "data/image.h"

namespace poseidon::data {

/// Reads height, width and channels of a PNG or BMP image. Throws CorruptSample whose message
/// begins with `name` if the header is invalid.
std::array<int64_t, 3> stb_image_size(std::span<const std::byte> bytes, const std::string& name);

/// Decodes the whole image to 1 or 3 channels. Drops transparency and reduces 16 bits per value to
/// 8. Throws CorruptSample if the file is damaged.
void stb_decode(std::span<const std::byte> bytes, const std::string& name, int channels,
                Image& out);

}  // namespace poseidon::data
