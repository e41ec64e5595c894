#include "data/image_decoder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "data/jpeg.h"
#include "data/sample.h"
#include "tests/data/made_files.h"

using namespace poseidon;
using namespace poseidon::data;
using made::Bytes;

namespace {

int largest_difference(const Image& a, const Image& b) {
  REQUIRE(a.pixels.size() == b.pixels.size());
  int largest = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i)
    largest = std::max(largest, std::abs(int{a.pixels[i]} - int{b.pixels[i]}));
  return largest;
}

Image decoded(const Bytes& bytes, int channels) {
  ImageDecoder decoder;
  decoder.open(bytes, "f");
  Image image;
  decoder.decode_all(channels, image);
  return image;
}

}  // namespace

TEST_CASE("jpeg: encode and decode approximately preserve an image") {
  for (int channels : {1, 3}) {
    const Image image = made::smooth_image(37, 53, channels);
    const Bytes bytes = encode_jpeg(image, 95);
    ImageDecoder decoder;
    const ImageHeader header = decoder.open(bytes, "f");
    CHECK(header.format == ImageFormat::kJpeg);
    CHECK(header.height == 37);
    CHECK(header.width == 53);
    CHECK(header.channels == channels);
    CHECK(largest_difference(decoded(bytes, channels), image) < 16);
  }
}

TEST_CASE("jpeg: the decoder converts gray to color and color to gray") {
  const Image grey = made::smooth_image(20, 30, 1);
  const Image colour = decoded(encode_jpeg(grey, 95), 3);
  CHECK(colour.channels == 3);
  for (size_t i = 0; i < grey.pixels.size(); ++i) {
    CHECK(colour.pixels[3 * i] == colour.pixels[3 * i + 2]);
    CHECK(std::abs(int{colour.pixels[3 * i]} - int{grey.pixels[i]}) < 8);
  }
  const Image from = made::smooth_image(20, 30, 3);
  const Image to = decoded(encode_jpeg(from, 95), 1);
  REQUIRE(to.pixels.size() == 600);
  for (size_t i = 0; i < 600; ++i) {
    const double luma = 0.299 * from.pixels[3 * i] + 0.587 * from.pixels[3 * i + 1] +
                        0.114 * from.pixels[3 * i + 2];
    CHECK(std::abs(luma - to.pixels[i]) < 10);
  }
}

TEST_CASE("jpeg: a decoded region matches the same region of the whole image") {
  const Bytes bytes = encode_jpeg(made::smooth_image(150, 200, 3), 92);
  const Image whole = decoded(bytes, 3);
  ImageDecoder decoder;
  for (const Box& box : {Box{0, 0, 150, 200}, Box{70, 90, 33, 41}, Box{149, 199, 1, 1},
                         Box{0, 100, 150, 100}, Box{17, 0, 9, 200}}) {
    decoder.open(bytes, "f");
    DecodedPart part;
    decoder.decode(box, 1, 3, part);
    CHECK(part.scale == 1);
    const auto top = static_cast<int64_t>(part.top), left = static_cast<int64_t>(part.left);
    REQUIRE(top <= box.top);
    REQUIRE(left <= box.left);
    REQUIRE(top + part.image.height >= box.top + box.height);
    REQUIRE(left + part.image.width >= box.left + box.width);
    int largest = 0;
    for (int64_t y = box.top; y < box.top + box.height; ++y)
      for (int64_t x = 3 * box.left; x < 3 * (box.left + box.width); ++x)
        largest =
            std::max(largest, std::abs(part.image.row(y - top)[x - 3 * left] - whole.row(y)[x]));
    CHECK(largest <= 2);
  }
}

TEST_CASE("jpeg: a region decoded at reduced size reports its correct position") {
  const Bytes bytes = encode_jpeg(made::smooth_image(400, 600, 3), 92);
  const Image whole = decoded(bytes, 3);
  ImageDecoder decoder;
  decoder.open(bytes, "f");
  DecodedPart part;
  decoder.decode({100, 200, 200, 300}, 5.0, 3, part);
  CHECK(part.scale == 0.25);
  const auto top = static_cast<int64_t>(part.top), left = static_cast<int64_t>(part.left);
  for (int64_t y = 0; y < part.image.height; ++y)
    for (int64_t x = 0; x < part.image.width; ++x) {
      const int64_t from_y = std::min<int64_t>(399, (top + y) * 4 + 2);
      const int64_t from_x = std::min<int64_t>(599, (left + x) * 4 + 2);
      CHECK(std::abs(part.image.row(y)[3 * x] - whole.row(from_y)[3 * from_x]) < 8);
    }
  CHECK((left + part.image.width) * 4 >= 500);
}

TEST_CASE("jpeg: damaged files are refused, and the decoder remains usable") {
  const Bytes bytes = encode_jpeg(made::smooth_image(200, 200, 3), 92);
  const auto decode = [](const Bytes& damaged) { decoded(damaged, 3); };
  CHECK_THROWS_WITH_AS(decode(Bytes(bytes.begin(), bytes.begin() + 1000)),
                       doctest::Contains("f: cannot be decoded: "), CorruptSample);
  CHECK_THROWS_AS(decode(Bytes(bytes.begin(), bytes.begin() + 30)), CorruptSample);
  CHECK_THROWS_WITH_AS(
      decode({}), "f: byte 0: expected a JPEG, PNG, BMP or binary PNM image, got an empty file",
      CorruptSample);
  CHECK_THROWS_WITH_AS(decode(made::bytes_of("GIF89a")),
                       "f: byte 0: expected a JPEG, PNG, BMP or binary PNM image, got a GIF image",
                       CorruptSample);
  CHECK_THROWS_WITH_AS(decode(made::bytes_of("<html>")), doctest::Contains("got HTML or XML text"),
                       CorruptSample);
  CHECK_THROWS_WITH_AS(decode(made::bytes_of("other")), doctest::Contains("got something else"),
                       CorruptSample);
  // After each of these errors the decoder can decode another image.
  ImageDecoder decoder;
  Image image;
  for (size_t cut : {100u, 700u, 1500u}) {
    try {
      decoder.open(std::span(bytes).first(cut), "f");
      decoder.decode_all(3, image);
    } catch (const CorruptSample&) {
    }
    decoder.open(bytes, "f");
    decoder.decode_all(3, image);
    CHECK(image.height == 200);
  }
}

TEST_CASE("pnm, png and bmp: valid images are decoded, damaged files are refused") {
  const Image image = made::smooth_image(9, 7, 3);
  CHECK(decoded(made::pnm(image), 3).pixels == image.pixels);
  const Image grey = made::smooth_image(9, 7, 1);
  CHECK(decoded(made::pnm(grey), 1).pixels == grey.pixels);
  CHECK(decoded(made::pnm(grey), 3).channels == 3);
  // A PNG of 2x1 pixels: red, blue.
  const unsigned char png[] = {
      0x89, 'P',  'N',  'G', 0x0d, 0x0a, 0x1a, 0x0a, 0,   0,    0,    13,   'I',  'H',  'D',
      'R',  0,    0,    0,   2,    0,    0,    0,    1,   8,    2,    0,    0,    0,    0x7b,
      0x40, 0xe8, 0xdd, 0,   0,    0,    18,   'I',  'D', 'A',  'T',  0x78, 0x01, 0x01, 7,
      0,    0xf8, 0xff, 0,   0xff, 0,    0,    0,    0,   0xff, 0x05, 0xfd, 0x01, 0xff, 0,
      0,    0,    0,    0,   0,    0,    0,    'I',  'E', 'N',  'D',  0xae, 0x42, 0x60, 0x82};
  Bytes bytes;
  for (unsigned char byte : png) bytes.push_back(static_cast<std::byte>(byte));
  CHECK(decoded(bytes, 3).pixels == std::vector<uint8_t>{255, 0, 0, 0, 0, 255});
  Bytes large = bytes;
  large[16] = std::byte{1};  // a width of 2^24 + 2
  CHECK_THROWS_WITH_AS(decoded(large, 3),
                       "f: expected a PNG of at most 67108864 pixels and 1048576 rows and columns, "
                       "got 1x16777218",
                       CorruptSample);
  bytes.resize(45);
  CHECK_THROWS_WITH_AS(decoded(bytes, 3), "f: the PNG has no IEND chunk: the file is truncated",
                       CorruptSample);
  bytes.resize(20);
  CHECK_THROWS_WITH_AS(decoded(bytes, 3),
                       "f: expected a PNG header of 33 bytes, got 20: the file is truncated",
                       CorruptSample);
  Bytes bmp = made::bytes_of("BM");
  CHECK_THROWS_AS(decoded(bmp, 3), CorruptSample);
}

TEST_CASE("pnm: damaged files are refused") {
  CHECK_THROWS_WITH_AS(decoded(made::bytes_of("P6\n2 1\n255\nabcde"), 3),
                       "f: expected 6 bytes of pixels, got 5", CorruptSample);
  CHECK_THROWS_WITH_AS(decoded(made::bytes_of("P6\nx"), 3),
                       "f: byte 3: expected the width, 1 to 67108864, got no number",
                       CorruptSample);
  CHECK_THROWS_WITH_AS(
      decoded(made::bytes_of("P5\n2 1\n65535\nabcd"), 1),
      "f: byte 7: expected the largest value of a pixel (8 bits), 1 to 255, got 65535",
      CorruptSample);
}

TEST_CASE("pnm: the error for a number with too many digits shows only the first digits") {
  CHECK_THROWS_WITH_AS(decoded(made::bytes_of("P5\n" + std::string(400, '9') + " 1\n255\n"), 1),
                       "f: byte 3: expected the width, 1 to 67108864, got 99999999999999999999...",
                       CorruptSample);
}

TEST_CASE("pnm: an oversized image is refused before memory is allocated") {
  CHECK_THROWS_WITH_AS(decoded(made::bytes_of("P6\n100000 # a comment\n 100000\n255\n"), 3),
                       "f: expected an image of at most 67108864 pixels, got 100000x100000",
                       CorruptSample);
}
