#include "data/stb_decoder.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "data/big_endian.h"
#include "data/sample.h"

namespace poseidon::data {

namespace {

/// Limit on each allocation of stb_image, sufficient for the largest allowed image. stb_image
/// allocates the sizes that a file requests, and a small compressed file can request huge sizes.
constexpr size_t kMaxPiece = static_cast<size_t>(kMaxImagePixels) * 8 + (size_t{1} << 20);

void* bounded_malloc(size_t bytes) { return bytes > kMaxPiece ? nullptr : std::malloc(bytes); }
void* bounded_realloc(void* memory, size_t bytes) {
  return bytes > kMaxPiece ? nullptr : std::realloc(memory, bytes);
}

}  // namespace

}  // namespace poseidon::data

#define STBI_MALLOC(bytes) poseidon::data::bounded_malloc(bytes)
#define STBI_REALLOC(memory, bytes) poseidon::data::bounded_realloc(memory, bytes)
#define STBI_FREE(memory) std::free(memory)
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
#define STBI_MAX_DIMENSIONS (1 << 20)
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // a member that is unused for memory input
#endif
#include <stb/stb_image.h>
#pragma GCC diagnostic pop

namespace poseidon::data {

namespace {

const stbi_uc* stb_bytes(std::span<const std::byte> bytes) {
  return reinterpret_cast<const stbi_uc*>(bytes.data());
}

constexpr std::string_view kPngBegin = "\x89PNG\r\n\x1a\n";
constexpr size_t kPngHeader = 33;  ///< bytes up to the end of the first chunk, IHDR

std::string_view words_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Returns the defect of a PNG as a message; "" if the bytes are not a PNG or no defect is found.
/// stb_image often reports only "unknown image type", because it tries its BMP reader after its PNG
/// reader.
std::string png_fault(std::span<const std::byte> bytes) {
  if (!words_of(bytes).starts_with(kPngBegin.substr(0, bytes.size()))) return "";
  if (bytes.size() < kPngHeader)
    return text("expected a PNG header of ", kPngHeader, " bytes, got ", bytes.size(),
                ": the file is truncated");
  const int64_t width = big_endian(bytes, 16), height = big_endian(bytes, 20);
  if (width > STBI_MAX_DIMENSIONS || height > STBI_MAX_DIMENSIONS ||
      width * height > kMaxImagePixels)
    return text("expected a PNG of at most ", kMaxImagePixels, " pixels and ", STBI_MAX_DIMENSIONS,
                " rows and columns, got ", height, "x", width);
  if (words_of(bytes).find("IEND", kPngHeader) == std::string_view::npos)
    return "the PNG has no IEND chunk: the file is truncated";
  return "";
}

[[noreturn]] void fail_to_decode(std::span<const std::byte> bytes, const std::string& name) {
  const std::string fault = png_fault(bytes);
  if (!fault.empty()) throw CorruptSample(text(name, ": ", fault));
  const char* reason = stbi_failure_reason();
  throw CorruptSample(
      text(name, ": cannot be decoded: ", reason != nullptr ? reason : "unknown reason"));
}

}  // namespace

std::array<int64_t, 3> stb_image_size(std::span<const std::byte> bytes, const std::string& name) {
  int width = 0, height = 0, channels = 0;
  if (stbi_info_from_memory(stb_bytes(bytes), static_cast<int>(bytes.size()), &width, &height,
                            &channels) == 0)
    fail_to_decode(bytes, name);
  return {height, width, channels >= 3 ? 3 : 1};
}

void stb_decode(std::span<const std::byte> bytes, const std::string& name, int channels,
                Image& out) {
  int width = 0, height = 0, own_channels = 0;
  const std::unique_ptr<stbi_uc, decltype(&std::free)> pixels(
      stbi_load_from_memory(stb_bytes(bytes), static_cast<int>(bytes.size()), &width, &height,
                            &own_channels, channels),
      &std::free);
  if (pixels == nullptr) fail_to_decode(bytes, name);
  out.reshape(height, width, channels);
  std::memcpy(out.pixels.data(), pixels.get(), out.pixels.size());
}

}  // namespace poseidon::data
