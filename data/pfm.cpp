#include "data/pfm.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>

#include "core/error.h"
#include "data/image.h"

namespace poseidon::data {

namespace {

/// Reads the words of a PFM header. Exactly one blank follows the last word.
class HeaderWords {
 public:
  HeaderWords(std::span<const std::byte> bytes, const std::string& name)
      : content_(reinterpret_cast<const char*>(bytes.data()), bytes.size()), name_(name) {}

  std::string_view next() {
    while (at_ < content_.size() && blank(content_[at_])) ++at_;
    const size_t from = at_;
    while (at_ < content_.size() && !blank(content_[at_])) ++at_;
    if (at_ >= content_.size() || at_ - from > 32)
      throw RunError(text(name_, ": byte ", from, ": the header of the PFM file is truncated"));
    return content_.substr(from, at_++ - from);
  }
  template <class Number>
  Number number(const char* what) {
    const std::string_view word = next();
    Number value{};
    const auto result = std::from_chars(word.data(), word.data() + word.size(), value);
    if (result.ec != std::errc() || result.ptr != word.data() + word.size())
      throw RunError(text(name_, ": expected the ", what, ", got \"", word, "\""));
    return value;
  }
  size_t at() const { return at_; }

 private:
  static bool blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
  std::string_view content_;
  const std::string& name_;
  size_t at_ = 0;
};

}  // namespace

FloatImage parse_pfm(std::span<const std::byte> bytes, const std::string& name) {
  HeaderWords words(bytes, name);
  const std::string_view magic = words.next();
  if (magic != "PF" && magic != "Pf")
    throw RunError(
        text(name, ": byte 0: expected \"PF\" or \"Pf\", got other bytes: not a PFM file"));
  FloatImage image;
  image.channels = magic == "PF" ? 3 : 1;
  image.width = words.number<int64_t>("width");
  image.height = words.number<int64_t>("height");
  if (words.number<double>("scale") >= 0)
    throw RunError(text(name, ": expected a negative scale (little-endian floats)"));
  if (image.width < 1 || image.height < 1 || image.width > kMaxImagePixels ||
      image.height > kMaxImagePixels / image.width)
    throw RunError(text(name, ": expected at most ", kMaxImagePixels, " pixels, got ", image.height,
                        "x", image.width));
  const size_t row = static_cast<size_t>(image.width * image.channels);
  const size_t count = row * static_cast<size_t>(image.height);
  if (bytes.size() - words.at() != count * sizeof(float))
    throw RunError(text(name, ": expected ", count * sizeof(float), " bytes after the header, got ",
                        bytes.size() - words.at()));
  image.values.resize(count);
  for (size_t y = 0; y < static_cast<size_t>(image.height); ++y)
    std::memcpy(
        &image.values[y * row],
        &bytes[words.at() + (static_cast<size_t>(image.height) - 1 - y) * row * sizeof(float)],
        row * sizeof(float));
  for (float value : image.values)
    if (!std::isfinite(value))
      throw RunError(text(name, ": expected finite values, got infinity or NaN"));
  return image;
}

std::vector<std::byte> encode_pfm(const FloatImage& image) {
  check(image.channels == 1 || image.channels == 3, "a PFM file has 1 or 3 channels");
  const std::string header =
      text(image.channels == 3 ? "PF" : "Pf", "\n", image.width, " ", image.height, "\n-1.0\n");
  const size_t row_bytes = static_cast<size_t>(image.width * image.channels) * sizeof(float);
  std::vector<std::byte> out(header.size() + row_bytes * static_cast<size_t>(image.height));
  std::memcpy(out.data(), header.data(), header.size());
  const auto* values = reinterpret_cast<const std::byte*>(image.values.data());
  for (size_t y = 0; y < static_cast<size_t>(image.height); ++y)
    std::memcpy(&out[header.size() + (static_cast<size_t>(image.height) - 1 - y) * row_bytes],
                values + y * row_bytes, row_bytes);
  return out;
}

}  // namespace poseidon::data
