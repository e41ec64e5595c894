#include "data/pnm.h"

#include <algorithm>

#include "data/sample.h"

namespace poseidon::data {

namespace {

struct Header {
  int64_t height = 0, width = 0, channels = 0;
  size_t bytes = 0;  ///< offset of the pixels
};

/// Reads the numbers of a header. Blanks, and comments from '#' to the end of the line, separate
/// the numbers.
class HeaderNumbers {
 public:
  HeaderNumbers(std::span<const std::byte> bytes, const std::string& name)
      : bytes_(bytes), name_(name) {}

  int64_t next(const char* what, int64_t most) {
    while (blank(at()) || at() == '#') skip_blank_or_comment();
    int64_t value = 0;
    const size_t from = position_;
    for (; at() >= '0' && at() <= '9'; ++position_)
      value = std::min(10 * value + (at() - '0'), most + 1);
    if (position_ == from || value < 1 || value > most)
      throw CorruptSample(text(name_, ": byte ", from, ": expected the ", what, ", 1 to ", most,
                               ", got ", position_ == from ? "no number" : digits_from(from)));
    return value;
  }
  /// Returns the offset after the single blank that ends the header.
  size_t end() const { return position_ + 1; }

 private:
  static bool blank(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
  int at() const {
    return position_ < bytes_.size() ? std::to_integer<int>(bytes_[position_]) : -1;
  }
  /// Returns the digits for a message, limited in length.
  std::string digits_from(size_t from) const {
    constexpr size_t kMaxDigits = 20;
    const size_t count = std::min(position_ - from, kMaxDigits);
    const auto* digits = reinterpret_cast<const char*>(bytes_.data()) + from;
    return std::string(digits, count) + (position_ - from > count ? "..." : "");
  }
  void skip_blank_or_comment() {
    if (at() == '#')
      while (at() != '\n' && at() != -1) ++position_;
    else
      ++position_;
  }

  std::span<const std::byte> bytes_;
  const std::string& name_;
  size_t position_ = 2;  // after the magic
};

Header read_header(std::span<const std::byte> bytes, const std::string& name) {
  HeaderNumbers numbers(bytes, name);
  Header header;
  header.channels = bytes[1] == std::byte{'6'} ? 3 : 1;
  header.width = numbers.next("width", kMaxImagePixels);
  header.height = numbers.next("height", kMaxImagePixels);
  numbers.next("largest value of a pixel (8 bits)", 255);
  header.bytes = numbers.end();
  return header;
}

}  // namespace

std::array<int64_t, 3> pnm_size(std::span<const std::byte> bytes, const std::string& name) {
  const Header header = read_header(bytes, name);
  return {header.height, header.width, header.channels};
}

void pnm_decode(std::span<const std::byte> bytes, const std::string& name, int channels,
                Image& out) {
  const Header header = read_header(bytes, name);
  const size_t count = static_cast<size_t>(header.height * header.width);
  const size_t expected = count * static_cast<size_t>(header.channels);
  if (bytes.size() < header.bytes || bytes.size() - header.bytes < expected)
    throw CorruptSample(text(name, ": expected ", expected, " bytes of pixels, got ",
                             bytes.size() - std::min(bytes.size(), header.bytes)));
  const auto* pixels = reinterpret_cast<const uint8_t*>(bytes.data()) + header.bytes;
  out.reshape(header.height, header.width, channels);
  convert_channels(pixels, header.channels, channels, out);
}

}  // namespace poseidon::data
