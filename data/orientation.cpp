#include "data/orientation.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace poseidon::data {

namespace {

/// Reads numbers of a TIFF structure. number() returns nullopt for a number beyond the end of the
/// structure.
class TiffBytes {
 public:
  explicit TiffBytes(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool read_byte_order() {
    if (bytes_.size() < 2 || bytes_[0] != bytes_[1]) return false;
    const char order = static_cast<char>(bytes_[0]);
    big_endian_ = order == 'M';
    return order == 'M' || order == 'I';
  }
  bool big_endian() const { return big_endian_; }

  std::optional<uint64_t> number(uint64_t at, size_t count) const {
    if (at > bytes_.size() || count > bytes_.size() - at) return std::nullopt;
    uint64_t value = 0;
    for (size_t i = 0; i < count; ++i) {
      const size_t from = at + (big_endian_ ? i : count - 1 - i);
      value = value << 8 | std::to_integer<uint64_t>(bytes_[from]);
    }
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  bool big_endian_ = false;
};

std::optional<OrientationTag> orientation_in(std::span<const std::byte> tiff) {
  constexpr uint64_t kMagic = 42, kTag = 0x0112, kShort = 3, kEntryBytes = 12;
  TiffBytes bytes(tiff);
  if (!bytes.read_byte_order() || bytes.number(2, 2) != kMagic) return std::nullopt;
  const std::optional<uint64_t> directory = bytes.number(4, 4);
  if (!directory) return std::nullopt;
  const uint64_t entries = bytes.number(*directory, 2).value_or(0);
  for (uint64_t i = 0; i < entries; ++i) {
    const uint64_t entry = *directory + 2 + i * kEntryBytes;
    if (bytes.number(entry, 2) != kTag) continue;
    const std::optional<uint64_t> value = bytes.number(entry + 8, 2);
    if (bytes.number(entry + 2, 2) != kShort || bytes.number(entry + 4, 4) != 1) break;
    if (!value || *value < 1 || *value > 8) break;
    return OrientationTag{static_cast<int>(*value), entry + 8, bytes.big_endian()};
  }
  return std::nullopt;
}

/// Returns the TIFF structure of a JPEG file's EXIF segment; empty if there is none.
std::span<const std::byte> exif_in(std::span<const std::byte> jpeg) {
  using namespace std::string_view_literals;
  constexpr std::string_view kExif = "Exif\0\0"sv;
  const auto byte = [&](size_t i) { return std::to_integer<uint32_t>(jpeg[i]); };
  for (size_t at = 2; at + 4 <= jpeg.size();) {
    const uint32_t marker = byte(at + 1);
    const bool stands_alone = marker == 0 || marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8);
    if (byte(at) != 0xFF || marker == 0xFF) {
      ++at;  // bytes between segments, which decoders skip
    } else if (stands_alone) {
      at += 2;
    } else if (marker == 0xD9 || marker == 0xDA) {  // end of image, or start of pixels
      return {};
    } else {
      const size_t length = byte(at + 2) << 8 | byte(at + 3);
      if (length < 2 || length > jpeg.size() - at - 2) return {};
      const auto content = jpeg.subspan(at + 4, length - 2);
      if (marker == 0xE1 && begins_with(content, kExif)) return content.subspan(kExif.size());
      at += 2 + length;
    }
  }
  return {};
}

/// Pointer offsets in the stored image between neighboring output pixels: `column` to the next
/// pixel in a row, `row` to the pixel below.
struct Steps {
  ptrdiff_t column = 0, row = 0;
};

/// Fills `out` from a stored image. `first` is the stored pixel of output pixel (0, 0). Copies in
/// squares for cache locality, because `steps` may cross the rows of the stored image.
template <int kChannels>
void copy_turned(const uint8_t* first, Steps steps, Image& out) {
  constexpr int64_t kSquare = 32;
  for (int64_t top = 0; top < out.height; top += kSquare)
    for (int64_t left = 0; left < out.width; left += kSquare)
      for (int64_t y = top; y < std::min(out.height, top + kSquare); ++y) {
        const uint8_t* from = first + y * steps.row + left * steps.column;
        uint8_t* to = out.row(y) + left * kChannels;
        const int64_t count = std::min(out.width - left, kSquare);
        for (int64_t x = 0; x < count; ++x, from += steps.column, to += kChannels)
          std::memcpy(to, from, kChannels);
      }
}

}  // namespace

OrientationTransform orientation_transform_of(int orientation) {
  switch (orientation) {
    case 2: return {.reverses_columns = true};
    case 3: return {.reverses_rows = true, .reverses_columns = true};
    case 4: return {.reverses_rows = true};
    case 5: return {.exchanges = true};
    case 6: return {.reverses_rows = true, .exchanges = true};
    case 7: return {.reverses_rows = true, .reverses_columns = true, .exchanges = true};
    case 8: return {.reverses_columns = true, .exchanges = true};
    default: return {};
  }
}

std::optional<OrientationTag> find_orientation(std::span<const std::byte> jpeg) {
  const auto tiff = exif_in(jpeg);
  std::optional<OrientationTag> tag = orientation_in(tiff);
  if (tag) tag->at += static_cast<size_t>(tiff.data() - jpeg.data());
  return tag;
}

std::vector<std::byte> without_orientation(std::span<const std::byte> jpeg) {
  std::vector<std::byte> copy(jpeg.begin(), jpeg.end());
  if (const auto tag = find_orientation(jpeg))
    copy[tag->at + (tag->big_endian ? 1 : 0)] = std::byte{1};  // the other byte is already 0
  return copy;
}

Box stored_box(const Box& upright, const OrientationTransform& turn, int64_t height,
               int64_t width) {
  Box box = upright;
  if (turn.exchanges) {
    std::swap(box.top, box.left);
    std::swap(box.height, box.width);
  }
  if (turn.reverses_rows) box.top = height - box.top - box.height;
  if (turn.reverses_columns) box.left = width - box.left - box.width;
  return box;
}

void apply_orientation(const Image& stored, const OrientationTransform& turn, Image& out) {
  const int64_t channels = stored.channels, row_bytes = stored.width * channels;
  out.reshape(stored.height, stored.width, channels);
  if (turn.exchanges) std::swap(out.height, out.width);
  const uint8_t* first = stored.row(turn.reverses_rows ? stored.height - 1 : 0) +
                         (turn.reverses_columns ? row_bytes - channels : 0);
  Steps steps{turn.reverses_columns ? -channels : channels,
              turn.reverses_rows ? -row_bytes : row_bytes};
  if (turn.exchanges) std::swap(steps.column, steps.row);
  channels == 1 ? copy_turned<1>(first, steps, out) : copy_turned<3>(first, steps, out);
}

}  // namespace poseidon::data
