#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace poseidon::data {

/// An image of floats, height x width x channels (1 or 3), top row first.
struct FloatImage {
  int64_t height = 0, width = 0, channels = 0;
  std::vector<float> values;
};

/// Read and write the portable float map format: "PF" or "Pf", width, height, scale (negative:
/// little-endian), then rows of floats from bottom to top. parse_pfm() throws RunError whose
/// message begins with `name` if the data are invalid, big-endian or not finite.
FloatImage parse_pfm(std::span<const std::byte> bytes, const std::string& name);
std::vector<std::byte> encode_pfm(const FloatImage& image);

}  // namespace poseidon::data
