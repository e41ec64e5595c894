#include "core/printable.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

namespace poseidon {

namespace {

/// The first character of a text: its code point and its length. `bytes` is 0 for invalid UTF-8.
struct Character {
  uint32_t code = 0;
  size_t bytes = 0;
};

Character first_character(std::string_view raw) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(raw[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  constexpr std::array<uint32_t, 5> kMin{0, 0, 0x80, 0x800, 0x10000};
  if (lead < 0xC2 || lead > 0xF4 || raw.size() < bytes) return {};
  uint32_t code = lead & (0x7Fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code < kMin[bytes] || code > 0x10FFFF || surrogate ? Character{} : Character{code, bytes};
}

bool is_control(uint32_t code) {
  const bool turns = (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  const bool ends_line = code == 0x2028 || code == 0x2029;
  return code < 0x20 || (code >= 0x7F && code <= 0x9F) || turns || ends_line;
}

std::string escaped(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) {
    std::array<char, 5> code{};
    std::snprintf(code.data(), code.size(), "\\x%02x", static_cast<uint8_t>(byte));
    out += code.data();
  }
  return out;
}

}  // namespace

namespace {

/// Combining marks after a letter, Japanese voicing marks, and Korean vowels and final consonants.
bool is_combining(uint32_t code) {
  return (code >= 0x300 && code <= 0x36F) || code == 0x3099 || code == 0x309A ||
         (code >= 0x1160 && code <= 0x11FF);
}

/// Removes a letter and its combining characters from the start of `rest`, and returns them.
std::string_view take_letter(std::string_view& rest) {
  const std::string_view from = rest;
  size_t bytes = std::max<size_t>(first_character(rest).bytes, 1);
  while (bytes < from.size()) {
    const Character next = first_character(from.substr(bytes));
    if (next.bytes == 0 || !is_combining(next.code)) break;
    bytes += next.bytes;
  }
  rest = from.substr(bytes);
  return from.substr(0, bytes);
}

bool is_composed(std::string_view letter) {
  const Character first = first_character(letter);
  return first.bytes == letter.size() && first.code >= 0x80;
}
bool is_decomposed(std::string_view letter) {
  return first_character(letter).bytes < letter.size();
}

}  // namespace

std::string_view without_byte_order_mark(std::string_view raw) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return raw.starts_with(kMark) ? raw.substr(kMark.size()) : raw;
}

bool differ_in_normalization(std::string_view a, std::string_view b) {
  if (a == b) return false;
  while (!a.empty() && !b.empty()) {
    const std::string_view one = take_letter(a), other = take_letter(b);
    const bool forms =
        (is_composed(one) && is_decomposed(other)) || (is_decomposed(one) && is_composed(other));
    if (one != other && !forms) return false;
  }
  return a.empty() && b.empty();
}

bool is_utf8(std::string_view raw) {
  while (!raw.empty()) {
    const Character next = first_character(raw);
    if (next.bytes == 0) return false;
    raw.remove_prefix(next.bytes);
  }
  return true;
}

std::string printable(std::string_view raw) {
  std::string out;
  out.reserve(raw.size());
  while (!raw.empty()) {
    const Character next = first_character(raw);
    const std::string_view bytes = raw.substr(0, next.bytes == 0 ? 1 : next.bytes);
    if (next.bytes == 0 || is_control(next.code))
      out += escaped(bytes);
    else
      out += bytes;
    raw.remove_prefix(bytes.size());
  }
  return out;
}

}  // namespace poseidon
