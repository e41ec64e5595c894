#include "data/image_decoder.h"

#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "data/jpeg.h"
#include "data/pnm.h"
#include "data/sample.h"
#include "data/stb_decoder.h"

namespace poseidon::data {

struct ImageDecoder::State {
  JpegDecoder jpeg;
  std::span<const std::byte> bytes;
  std::string name;
  ImageHeader header;  ///< of the upright image
  int64_t stored_height = 0, stored_width = 0;
  OrientationTransform turn;
  DecodedPart stored;  ///< decoded part before it is turned upright
};

namespace {

/// Names the format of unsupported bytes for a message. Images of other formats and error pages of
/// servers often have a .jpg name.
const char* other_format(std::span<const std::byte> bytes) {
  constexpr std::pair<std::string_view, const char*> kOthers[] = {
      {"GIF8", "a GIF image"},
      {"RIFF", "a WebP image"},
      {std::string_view("II*\0", 4), "a TIFF image"},
      {std::string_view("MM\0*", 4), "a TIFF image"},
      {"<", "HTML or XML text"},
      {"P1", "an ASCII PNM image"},
      {"P2", "an ASCII PNM image"},
      {"P3", "an ASCII PNM image"}};
  if (bytes.empty()) return "an empty file";
  for (const auto& [magic, name] : kOthers)
    if (begins_with(bytes, magic)) return name;
  return "something else";
}

ImageFormat format_of(std::span<const std::byte> bytes, const std::string& name) {
  if (begins_with(bytes, "\xFF\xD8")) return ImageFormat::kJpeg;
  if (begins_with(bytes, "\x89PNG")) return ImageFormat::kPng;
  if (begins_with(bytes, "BM")) return ImageFormat::kBmp;
  if (begins_with(bytes, "P5") || begins_with(bytes, "P6")) return ImageFormat::kPnm;
  throw CorruptSample(text(name, ": byte 0: expected a JPEG, PNG, BMP or binary PNM image, got ",
                           other_format(bytes)));
}

}  // namespace

ImageDecoder::ImageDecoder() : state_(std::make_unique<State>()) {}
ImageDecoder::~ImageDecoder() = default;

ImageHeader ImageDecoder::open(std::span<const std::byte> bytes, const std::string& name,
                               OrientationRule rule) {
  state_->bytes = bytes;
  state_->name = name;
  ImageHeader& header = state_->header;
  if (bytes.size() > kMaxEncodedBytes)
    throw CorruptSample(text(name, ": expected an image of at most ", kMaxEncodedBytes,
                             " bytes, got ", bytes.size()));
  header.format = format_of(bytes, name);
  const std::array<int64_t, 3> size =
      header.format == ImageFormat::kJpeg  ? state_->jpeg.open(bytes, name)
      : header.format == ImageFormat::kPnm ? pnm_size(bytes, name)
                                           : stb_image_size(bytes, name);
  header.height = state_->stored_height = size[0];
  header.width = state_->stored_width = size[1];
  header.channels = size[2];
  const bool jpeg = header.format == ImageFormat::kJpeg;
  const int64_t most = jpeg ? kMaxJpegPixels : kMaxImagePixels;
  if (header.height < 1 || header.width < 1 || header.height > most / header.width)
    throw CorruptSample(text(name, ": expected an image of at most ", most, " pixels, got ",
                             header.height, "x", header.width));
  const auto tag = jpeg && rule == OrientationRule::kApply ? find_orientation(bytes) : std::nullopt;
  state_->turn = orientation_transform_of(tag ? tag->orientation : 1);
  if (state_->turn.exchanges) std::swap(header.height, header.width);
  return header;
}

void ImageDecoder::decode_stored(const Box& box, double shrink, int channels, DecodedPart& out) {
  if (state_->header.format == ImageFormat::kJpeg) {
    state_->jpeg.decode(box, shrink, channels, out);
    return;
  }
  const bool pnm = state_->header.format == ImageFormat::kPnm;
  (pnm ? pnm_decode : stb_decode)(state_->bytes, state_->name, channels, out.image);
  out.scale = 1;
  out.top = out.left = 0;
}

void ImageDecoder::decode(const Box& box, double shrink, int channels, DecodedPart& out) {
  const OrientationTransform& turn = state_->turn;
  if (turn.is_none()) return decode_stored(box, shrink, channels, out);
  const int64_t height = state_->stored_height, width = state_->stored_width;
  DecodedPart& stored = state_->stored;
  decode_stored(stored_box(box, turn, height, width), shrink, channels, stored);
  apply_orientation(stored.image, turn, out.image);
  // Converts an offset of the stored part (DecodedPart::top or left) to the upright image. A
  // reversed axis counts from the end of the scaled image, at extent * scale. This end may lie
  // within a pixel, because the decoder rounds extents up.
  const auto begin = [&](bool reverses, double from, int64_t count, int64_t extent) {
    return reverses ? static_cast<double>(extent) * stored.scale - static_cast<double>(count) - from
                    : from;
  };
  out.scale = stored.scale;
  out.top = begin(turn.reverses_rows, stored.top, stored.image.height, height);
  out.left = begin(turn.reverses_columns, stored.left, stored.image.width, width);
  if (turn.exchanges) std::swap(out.top, out.left);
}

void ImageDecoder::decode_all(int channels, Image& out) {
  DecodedPart part;
  std::swap(part.image, out);
  decode({0, 0, state_->header.height, state_->header.width}, 1, channels, part);
  std::swap(part.image, out);
}

}  // namespace poseidon::data
