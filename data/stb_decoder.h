#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "data/image.h"

namespace poseidon::data {

/// Height, width, channels of a PNG or BMP image. Throws CorruptSample, beginning with `name`.
std::array<int64_t, 3> stb_image_size(std::span<const std::byte> bytes, const std::string& name);

/// The whole image as 1 or 3 channels; transparency is dropped, 16 bits become 8. Throws
/// CorruptSample.
void stb_decode(std::span<const std::byte> bytes, const std::string& name, int channels,
                Image& out);

}  // namespace poseidon::data
