#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace poseidon::data {

/// Returns true if a file's bytes begin with `magic`.
inline bool begins_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

/// Limits on the bytes of an image file and on height * width. Decoders reject a larger image
/// before they allocate memory for its pixels.
inline constexpr uint64_t kMaxEncodedBytes = uint64_t{64} << 20;
inline constexpr int64_t kMaxImagePixels = int64_t{1} << 26;
/// Limit on height * width in a JPEG header. It is larger than kMaxImagePixels, because the JPEG
/// decoder can decode a part of the image, or a smaller size. The decoded part has at most
/// kMaxImagePixels pixels.
inline constexpr int64_t kMaxJpegPixels = int64_t{1} << 28;

/// An image of 8-bit pixels, height x width x channels.
struct Image {
  int64_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;

  const uint8_t* row(int64_t y) const { return pixels.data() + y * width * channels; }
  uint8_t* row(int64_t y) { return pixels.data() + y * width * channels; }
  /// Changes the size. Reuses the memory if it is large enough. The caller must then set all
  /// pixels.
  void reshape(int64_t new_height, int64_t new_width, int64_t new_channels) {
    height = new_height;
    width = new_width;
    channels = new_channels;
    pixels.resize(static_cast<size_t>(height * width * channels));
  }
};

/// Converts interleaved pixels from `channels` to `wanted` channels, and writes them to `out`. The
/// caller has set the height and the width of `out`. The numbers of channels are equal, or one is 1
/// and the other is 3. Gray is repeated in all channels. Color becomes gray with the weights of
/// ITU-R BT.601.
void convert_channels(const uint8_t* in, int64_t channels, int64_t wanted, Image& out);

/// A rectangle: rows top .. top + height - 1 and columns left .. left + width - 1.
struct Box {
  int64_t top = 0, left = 0, height = 0, width = 0;
  bool operator==(const Box&) const = default;
};

}  // namespace poseidon::data
