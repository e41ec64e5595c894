#include "data/orientation.h"

#include <doctest/doctest.h>

#include <cmath>

#include "data/image_decoder.h"
#include "data/jpeg.h"
#include "data/pack.h"
#include "data/pixel_reader.h"
#include "data/record_set.h"
#include "data/transform.h"
#include "tests/data/made_files.h"

using namespace poseidon;
using namespace poseidon::data;
using made::Bytes;

namespace {

/// The pixel of the stored image for pixel (y, x) of the upright image of height x width.
/// Implements the EXIF standard's table, which defines the sides that row 0 and column 0 represent.
std::array<int64_t, 2> stored_pixel(int orientation, int64_t y, int64_t x, int64_t height,
                                    int64_t width) {
  switch (orientation) {
    case 2: return {y, width - 1 - x};
    case 3: return {height - 1 - y, width - 1 - x};
    case 4: return {height - 1 - y, x};
    case 5: return {x, y};
    case 6: return {width - 1 - x, y};
    case 7: return {width - 1 - x, height - 1 - y};
    case 8: return {x, height - 1 - y};
    default: return {y, x};
  }
}

Image stored_of(const Image& upright, int orientation) {
  Image stored;
  const bool exchanged = orientation >= 5;
  stored.reshape(exchanged ? upright.width : upright.height,
                 exchanged ? upright.height : upright.width, upright.channels);
  for (int64_t y = 0; y < upright.height; ++y)
    for (int64_t x = 0; x < upright.width; ++x) {
      const auto [row, column] = stored_pixel(orientation, y, x, upright.height, upright.width);
      std::copy_n(upright.row(y) + x * upright.channels, upright.channels,
                  stored.row(row) + column * upright.channels);
    }
  return stored;
}

/// The JPEG file of a camera with this orientation.
Bytes photograph(const Image& upright, int orientation) {
  return made::with_orientation(encode_jpeg(stored_of(upright, orientation), 95), orientation,
                                orientation % 2 == 0);
}

int largest_difference(const Image& a, const Image& b) {
  REQUIRE(a.height == b.height);
  REQUIRE(a.pixels.size() == b.pixels.size());
  int largest = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i)
    largest = std::max(largest, std::abs(int{a.pixels[i]} - int{b.pixels[i]}));
  return largest;
}

/// Checks each pixel of a part against the pixel of the whole image at the part's position.
void check_part(const DecodedPart& part, const Image& whole, const Box& box) {
  CHECK(part.left <= static_cast<double>(box.left) * part.scale);
  CHECK(part.top <= static_cast<double>(box.top) * part.scale);
  const auto position = [&](int64_t i, double begin, int64_t extent) {
    const double from = (static_cast<double>(i) + 0.5 + begin) / part.scale;
    return std::clamp<int64_t>(static_cast<int64_t>(from), 0, extent - 1);
  };
  int largest = 0;
  for (int64_t y = 0; y < part.image.height; ++y)
    for (int64_t x = 0; x < part.image.width; ++x) {
      const uint8_t* expected =
          whole.row(position(y, part.top, whole.height)) + 3 * position(x, part.left, whole.width);
      for (int64_t c = 0; c < 3; ++c)
        largest = std::max(largest, std::abs(part.image.row(y)[3 * x + c] - expected[c]));
    }
  CHECK(largest < 12);
}

}  // namespace

TEST_CASE("orientation: all eight orientations are decoded upright, in color and in gray") {
  for (int channels : {1, 3}) {
    const Image upright = made::smooth_image(41, 67, channels);
    for (int orientation = 1; orientation <= 8; ++orientation) {
      CAPTURE(orientation);
      const Bytes file = photograph(upright, orientation);
      ImageDecoder decoder;
      const ImageHeader header = decoder.open(file, "f");
      CHECK(header.height == 41);
      CHECK(header.width == 67);
      Image image;
      decoder.decode_all(channels, image);
      CHECK(largest_difference(image, upright) < 16);
      const ImageHeader stored = decoder.open(file, "f", OrientationRule::kIgnore);
      CHECK(stored.height == (orientation >= 5 ? 67 : 41));
      decoder.decode_all(channels, image);
      CHECK(largest_difference(image, stored_of(upright, orientation)) < 16);
    }
  }
}

TEST_CASE("orientation: a region decoded at reduced size reports its correct position") {
  const Image upright = made::smooth_image(403, 601, 3);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    CAPTURE(orientation);
    const Bytes file = photograph(upright, orientation);
    ImageDecoder decoder;
    DecodedPart part;
    for (const Box& box : {Box{100, 200, 200, 300}, Box{0, 0, 403, 601}, Box{300, 501, 103, 100}})
      for (double shrink : {1.0, 2.5, 5.0}) {
        decoder.open(file, "f");
        decoder.decode(box, shrink, 3, part);
        check_part(part, upright, box);
      }
  }
}

TEST_CASE("orientation: the transform applies or ignores the orientation, as configured") {
  const Image upright = made::smooth_image(40, 60, 3);
  const Bytes file = photograph(upright, 6);
  Sample sample{.form = SampleForm::kEncoded, .bytes = file, .storage = {}};
  const auto scratch = make_transform_scratch();
  const auto apply = [&](OrientationRule rule, const Shape& output) {
    TransformConfig config;
    config.orientation = rule;
    const Transform transform(config, output, Phase::kTest, 1);
    std::vector<float> values(static_cast<size_t>(output.count()));
    transform.apply(
        sample, {}, [] { return "f"; }, values, *scratch);
    return values;
  };
  // Green grows from left to right in the upright image. Its right edge is row 0 of the stored
  // image.
  constexpr size_t kGreen = 40 * 60;
  CHECK(apply(OrientationRule::kApply, {3, 40, 60})[kGreen] < 16);
  CHECK(apply(OrientationRule::kIgnore, {3, 60, 40})[kGreen] > 240);
  CHECK_THROWS_AS(apply(OrientationRule::kIgnore, {3, 40, 60}), ConfigError);
}

TEST_CASE("orientation: pack applies or ignores the orientation, as configured") {
  const made::Folder folder;
  const Image upright = made::smooth_image(40, 60, 3);
  for (int orientation = 1; orientation <= 8; ++orientation)
    made::write(folder / ("in/a/" + std::to_string(orientation) + ".jpg"),
                photograph(upright, orientation));
  const auto packed = [&](const std::string& name, bool decode, int64_t resize,
                          OrientationRule rule) {
    PackOptions options;
    options.inputs = {folder / "in"};
    options.output = folder / name;
    options.decode = decode;
    options.resize_short = resize;
    options.orientation = rule;
    SilentLog log;
    pack_samples(options, log, [](int64_t, int64_t) {});
    return open_record_set((folder / name).string());
  };
  for (const bool decode : {false, true}) {
    const std::string name = decode ? "decoded" : "files";
    const auto turned = packed(name, decode, 0, OrientationRule::kApply);
    CHECK(turned->description().shape == Shape{3, 40, 60});
    const auto small = packed(name + "-small", decode, 20, OrientationRule::kApply);
    CHECK(small->description().shape == Shape{3, 20, 30});
    PixelReader reader(*turned), small_reader(*small);
    const auto stored = packed(name + "-stored", decode, 0, OrientationRule::kIgnore);
    PixelReader stored_reader(*stored);
    for (int64_t i = 0; i < 8; ++i) {
      CAPTURE(i);
      CHECK(largest_difference(reader.read(i), upright) < 16);
      CHECK(largest_difference(small_reader.read(i), made::smooth_image(20, 30, 3)) < 16);
      CHECK(largest_difference(stored_reader.read(i), stored_of(upright, static_cast<int>(i) + 1)) <
            16);
    }
  }
}

TEST_CASE("orientation: damaged EXIF data are harmless, and only a valid tag is applied") {
  const Bytes plain = encode_jpeg(made::smooth_image(16, 8, 3), 90);
  CHECK(!find_orientation(plain));
  CHECK(!find_orientation({}));
  for (const bool big_endian : {false, true}) {
    const Bytes file = made::with_orientation(plain, 6, big_endian);
    const auto tag = find_orientation(file);
    REQUIRE(tag);
    CHECK(tag->orientation == 6);
    CHECK(find_orientation(without_orientation(file))->orientation == 1);
    CHECK(without_orientation(file).size() == file.size());
    CHECK(!find_orientation(made::with_orientation(plain, 0, big_endian)));
    CHECK(!find_orientation(made::with_orientation(plain, 9, big_endian)));
    CHECK(!find_orientation(made::with_orientation(plain, 0x106, big_endian)));
    constexpr size_t kExif = 60;  // size of the segment
    for (size_t cut = 0; cut < kExif; ++cut) find_orientation(std::span(file).first(cut));
    for (size_t byte = 2; byte < kExif; ++byte)
      for (const int value : {0, 1, 0x7F, 0xFF}) {
        Bytes damaged = file;
        damaged[byte] = static_cast<std::byte>(value);
        const auto found = find_orientation(damaged);
        if (found) CHECK(found->at + 2 <= damaged.size());
        without_orientation(damaged);
      }
  }
  CHECK(without_orientation(plain) == plain);
}

TEST_CASE("jpeg: an oversized photograph is decoded at reduced size, but refused at full size") {
  // The image has one gray value, so the file is small. Decoding it at 1/8 scale is fast.
  Image flat;
  flat.reshape(8200, 8200, 1);
  const Bytes file = encode_jpeg(flat, 50);
  ImageDecoder decoder;
  CHECK(decoder.open(file, "f").height == 8200);
  DecodedPart part;
  decoder.decode({0, 0, 8200, 8200}, 8, 1, part);
  CHECK(part.image.height == 1025);
  decoder.open(file, "f");
  CHECK_THROWS_WITH_AS(decoder.decode({0, 0, 8200, 8200}, 1, 1, part),
                       "f: expected at most 67108864 pixels to be decoded, got 8200x8200; shrink "
                       "larger images with poseidon-data pack --resize",
                       CorruptSample);
}
