#include "data/stb_decoder.h"

#include <cstdlib>
#include <cstring>
#include <memory>

#include "data/sample.h"

namespace poseidon::data {

namespace {

/// stb_image grows its buffers by what the file says. A compressed file can say very much, so its
/// memory is taken through these: a single piece is at most what the largest image needs.
constexpr size_t kMostPiece = static_cast<size_t>(kMostImagePixels) * 8 + (size_t{1} << 20);

void* bounded_malloc(size_t bytes) { return bytes > kMostPiece ? nullptr : std::malloc(bytes); }
void* bounded_realloc(void* memory, size_t bytes) {
  return bytes > kMostPiece ? nullptr : std::realloc(memory, bytes);
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
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // a member that memory input does not use
#endif
#include <stb/stb_image.h>
#pragma GCC diagnostic pop

namespace poseidon::data {

namespace {

const stbi_uc* stb_bytes(std::span<const std::byte> bytes) {
  return reinterpret_cast<const stbi_uc*>(bytes.data());
}

[[noreturn]] void fail(const std::string& name) {
  const char* reason = stbi_failure_reason();
  throw CorruptSample(
      text(name, ": cannot be decoded: ", reason != nullptr ? reason : "unknown reason"));
}

}  // namespace

std::array<int64_t, 3> stb_image_size(std::span<const std::byte> bytes, const std::string& name) {
  int width = 0, height = 0, channels = 0;
  if (stbi_info_from_memory(stb_bytes(bytes), static_cast<int>(bytes.size()), &width, &height,
                            &channels) == 0)
    fail(name);
  return {height, width, channels >= 3 ? 3 : 1};
}

void stb_decode(std::span<const std::byte> bytes, const std::string& name, int channels,
                Image& out) {
  int width = 0, height = 0, own_channels = 0;
  const std::unique_ptr<stbi_uc, decltype(&std::free)> pixels(
      stbi_load_from_memory(stb_bytes(bytes), static_cast<int>(bytes.size()), &width, &height,
                            &own_channels, channels),
      &std::free);
  if (pixels == nullptr) fail(name);
  out.reshape(height, width, channels);
  std::memcpy(out.pixels.data(), pixels.get(), out.pixels.size());
}

}  // namespace poseidon::data
