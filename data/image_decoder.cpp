#include "data/image_decoder.h"

#include <array>
#include <cstring>
#include <string_view>

#include "data/jpeg.h"
#include "data/pnm.h"
#include "data/sample.h"
#include "data/stb_decoder.h"

namespace poseidon::data {

struct ImageDecoder::State {
  JpegDecoder jpeg;
  std::span<const std::byte> bytes;
  std::string name;
  ImageHeader header;
};

namespace {

bool begins(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

ImageFormat format_of(std::span<const std::byte> bytes, const std::string& name) {
  if (begins(bytes, "\xFF\xD8")) return ImageFormat::kJpeg;
  if (begins(bytes, "\x89PNG")) return ImageFormat::kPng;
  if (begins(bytes, "BM")) return ImageFormat::kBmp;
  if (begins(bytes, "P5") || begins(bytes, "P6")) return ImageFormat::kPnm;
  throw CorruptSample(text(name, ": byte 0: expected a JPEG, PNG, BMP or binary PNM image, got ",
                           bytes.empty() ? "an empty file" : "something else"));
}

}  // namespace

ImageDecoder::ImageDecoder() : state_(std::make_unique<State>()) {}
ImageDecoder::~ImageDecoder() = default;

ImageHeader ImageDecoder::open(std::span<const std::byte> bytes, const std::string& name) {
  state_->bytes = bytes;
  state_->name = name;
  ImageHeader& header = state_->header;
  if (bytes.size() > kMostEncodedBytes)
    throw CorruptSample(text(name, ": expected an image of at most ", kMostEncodedBytes,
                             " bytes, got ", bytes.size()));
  header.format = format_of(bytes, name);
  const std::array<int64_t, 3> size =
      header.format == ImageFormat::kJpeg  ? state_->jpeg.open(bytes, name)
      : header.format == ImageFormat::kPnm ? pnm_size(bytes, name)
                                           : stb_image_size(bytes, name);
  header.height = size[0];
  header.width = size[1];
  header.channels = size[2];
  if (header.height < 1 || header.width < 1 || header.height > kMostImagePixels / header.width)
    throw CorruptSample(text(name, ": expected an image of at most ", kMostImagePixels,
                             " pixels, got ", header.height, "x", header.width));
  return header;
}

void ImageDecoder::decode(const Box& box, double shrink, int channels, DecodedPart& out) {
  if (state_->header.format == ImageFormat::kJpeg) {
    state_->jpeg.decode(box, shrink, channels, out);
    return;
  }
  const bool pnm = state_->header.format == ImageFormat::kPnm;
  (pnm ? pnm_decode : stb_decode)(state_->bytes, state_->name, channels, out.image);
  out.scale = 1;
  out.top = out.left = 0;
}

void ImageDecoder::decode_all(int channels, Image& out) {
  DecodedPart part;
  std::swap(part.image, out);
  decode({0, 0, state_->header.height, state_->header.width}, 1, channels, part);
  std::swap(part.image, out);
}

}  // namespace poseidon::data
