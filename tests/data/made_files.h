#pragma once

#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/image.h"
#include "data/read_at.h"

// Files and images for the tests of this folder.

namespace poseidon::data::made {

using Bytes = std::vector<std::byte>;

/// A temporary folder. The destructor removes it.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "poseidon-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  std::string text() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

inline void write(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

inline Bytes read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(file)), {});
  const auto* begin = reinterpret_cast<const std::byte*>(content.data());
  return {begin, begin + content.size()};
}

/// Reads from a copy of `bytes`.
inline ReadAt reader_of(const Bytes& bytes) {
  return [bytes](uint64_t offset, std::span<std::byte> out) {
    if (offset > bytes.size() || out.size() > bytes.size() - offset)
      throw RunError("the bytes end");
    std::copy_n(bytes.data() + offset, out.size(), out.data());
  };
}

inline Bytes bytes_of(const std::string& text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

inline Bytes gzipped(const Bytes& bytes) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  Bytes out(bytes.size() + 1024);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline void put_big_endian(Bytes& bytes, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes.push_back(static_cast<std::byte>(value >> shift));
}

/// A smooth image with many colors. `phase` selects one of several images.
inline Image smooth_image(int64_t height, int64_t width, int64_t channels, int64_t phase = 0) {
  Image image;
  image.reshape(height, width, channels);
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t value = c == 0   ? 255 * y / height
                              : c == 1 ? 255 * x / width
                                       : 255 * (x + y + phase) / (height + width + phase);
        image.row(y)[x * channels + c] = static_cast<uint8_t>((value + 7 * phase) % 256);
      }
  return image;
}

/// Encodes an image as binary PPM or PGM.
inline Bytes pnm(const Image& image) {
  Bytes out = bytes_of((image.channels == 3 ? "P6\n" : "P5\n") + std::to_string(image.width) + " " +
                       std::to_string(image.height) + "\n255\n");
  for (uint8_t value : image.pixels) out.push_back(static_cast<std::byte>(value));
  return out;
}

/// Adds an EXIF segment to a JPEG file, with the orientation as its second tag.
inline Bytes with_orientation(const Bytes& jpeg, int orientation, bool big_endian = false) {
  const auto number = [&](Bytes& out, uint32_t value, int count) {
    for (int i = 0; i < count; ++i)
      out.push_back(static_cast<std::byte>(value >> 8 * (big_endian ? count - 1 - i : i)));
  };
  Bytes tiff = bytes_of(big_endian ? "MM" : "II");
  number(tiff, 42, 2);
  number(tiff, 8, 4);
  number(tiff, 2, 2);
  for (const uint32_t tag : {0x0103u, 0x0112u}) {
    number(tiff, tag, 2);
    number(tiff, 3, 2);
    number(tiff, 1, 4);
    number(tiff, tag == 0x0112 ? static_cast<uint32_t>(orientation) : 6, 2);
    number(tiff, 0, 2);
  }
  number(tiff, 0, 4);
  Bytes out(jpeg.begin(), jpeg.begin() + 2);
  const size_t length = 2 + 6 + tiff.size();
  for (const size_t byte : {size_t{0xFF}, size_t{0xE1}, length >> 8, length & 0xFF})
    out.push_back(static_cast<std::byte>(byte));
  for (const char c : {'E', 'x', 'i', 'f', '\0', '\0'}) out.push_back(static_cast<std::byte>(c));
  out.insert(out.end(), tiff.begin(), tiff.end());
  out.insert(out.end(), jpeg.begin() + 2, jpeg.end());
  return out;
}

/// Appends one entry of a ustar archive, with its padding.
inline void append_tar(Bytes& out, const std::string& name, const Bytes& content, char type = '0') {
  Bytes header(512);
  const auto put = [&](size_t at, const std::string& value) {
    for (size_t i = 0; i < value.size(); ++i) header[at + i] = static_cast<std::byte>(value[i]);
  };
  const auto octal = [](size_t value, int digits) {
    char text[32];
    std::snprintf(text, sizeof text, "%0*zo", digits, value);
    return std::string(text);
  };
  put(0, name.substr(0, 100));
  put(124, octal(content.size(), 11));
  put(148, "        ");
  header[156] = static_cast<std::byte>(type);
  put(257, "ustar");
  size_t sum = 0;
  for (std::byte byte : header) sum += std::to_integer<size_t>(byte);
  put(148, octal(sum, 6) + std::string(1, '\0'));
  out.insert(out.end(), header.begin(), header.end());
  out.insert(out.end(), content.begin(), content.end());
  out.resize((out.size() + 511) / 512 * 512);
}

}  // namespace poseidon::data::made
