#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "data/image.h"

namespace poseidon::data {

/// Reads height, width and channels of a binary 8-bit PGM (P5) or PPM (P6) image. Throws
/// CorruptSample whose message begins with `name` if the header is invalid. stb_image, which also
/// reads these formats, does not check the numbers in the header.
std::array<int64_t, 3> pnm_size(std::span<const std::byte> bytes, const std::string& name);

/// Decodes the whole image to 1 or 3 channels. Throws CorruptSample if the file is damaged.
void pnm_decode(std::span<const std::byte> bytes, const std::string& name, int channels,
                Image& out);

}  // namespace poseidon::data
