#include "data/datum.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/data/made_files.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::data;
using made::Bytes;

namespace {

Bytes bytes(std::initializer_list<int> values) {
  Bytes out;
  for (const int value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

Bytes taken(const Datum& datum, bool bgr_to_rgb = false) {
  Sample sample;
  fill_from_datum(datum, bgr_to_rgb, "d", sample);
  return {sample.bytes.begin(), sample.bytes.end()};
}

std::string fault(const Datum& datum) {
  return error_of<CorruptSample>([&] { taken(datum); });
}

Datum small(const Bytes& values) {
  Datum datum;
  datum.channels = 3;
  datum.height = 1;
  datum.width = 2;
  datum.bytes = values;
  datum.label = 7;
  return datum;
}

}  // namespace

TEST_CASE("datum: parse and encode agree with protobuf's bytes") {
  // A Caffe Datum on the wire: channels 1, height 1, width 2, data, label 300, encoded.
  const Bytes message = bytes({0x08, 1, 0x10, 1, 0x18, 2, 0x22, 2, 9, 8, 0x28, 0xAC, 2, 0x38, 1});
  const Datum datum = parse_datum(message, "d");
  CHECK(datum.channels == 1);
  CHECK(datum.height == 1);
  CHECK(datum.width == 2);
  CHECK(Bytes(datum.bytes.begin(), datum.bytes.end()) == bytes({9, 8}));
  CHECK(datum.label == 300);
  CHECK(datum.encoded);
  CHECK(encode_datum(datum) == message);
}

TEST_CASE("datum: packed and unpacked floats are parsed, and unknown fields are skipped") {
  const Bytes single = bytes({0x35, 0, 0, 0x80, 0x3F, 0x35, 0, 0, 0, 0x40});
  const Bytes packed = bytes({0x32, 8, 0, 0, 0x80, 0x3F, 0, 0, 0, 0x40, 0x48, 5});
  for (const Bytes& message : {single, packed})
    CHECK(parse_datum(message, "d").floats == std::vector<float>{1, 2});
}

TEST_CASE("datum: channel planes become interleaved pixels, in either color order") {
  const Bytes values = bytes({1, 2, 3, 4, 5, 6});
  CHECK(taken(small(values)) == bytes({1, 3, 5, 2, 4, 6}));
  CHECK(taken(small(values), true) == bytes({5, 3, 1, 6, 4, 2}));
  Datum floats = small({});
  floats.floats = {1, 2, 3, 4, 5, 255};
  CHECK(taken(floats) == bytes({1, 3, 5, 2, 4, 255}));
  Datum gray = small(values);
  gray.channels = 1;
  gray.height = 3;
  CHECK(taken(gray, true) == values);
}

TEST_CASE("datum: an encoded image is passed on unchanged") {
  Datum datum = small(bytes({0xFF, 0xD8, 1}));
  datum.encoded = true;
  datum.channels = 0;
  Sample sample;
  fill_from_datum(datum, true, "d", sample);
  CHECK(sample.form == SampleForm::kEncoded);
  CHECK(sample.label == 7);
  CHECK(sample.bytes.data() == datum.bytes.data());
}

TEST_CASE("datum: the error names a label, size or value that a record set cannot store") {
  const Bytes values = bytes({1, 2, 3, 4, 5, 6});
  Datum datum = small(values);
  datum.label.reset();
  CHECK(fault(datum) == "d: has no label");
  datum.label = -1;
  CHECK(fault(datum) == "d: expected a label from 0 to 999999, got -1");
  datum = small(values);
  datum.width = 3;
  CHECK(fault(datum) == "d: expected 9 values for a sample of 3x1x3, got 6");
  datum.channels = 256;
  CHECK(fault(datum).starts_with("d: expected a sample of 1 to 255 channels and 1 to 67108864"));
  datum = small({});
  datum.floats = {1, 2, 0.5F, 4, 5, 6};
  CHECK(fault(datum) ==
        "d: expected integers from 0 to 255, as a record set stores 8-bit pixels, got 0.5");
  for (const float value : {-1.0F, 256.0F, NAN}) {
    datum.floats[2] = value;
    CHECK(fault(datum).find("expected integers from 0 to 255") != std::string::npos);
  }
  for (const int64_t extent : {int64_t{0}, int64_t{-1}, INT64_MAX}) {
    datum.height = extent;
    CHECK(fault(datum).find("expected a sample of 1 to 255 channels") != std::string::npos);
  }
}

TEST_CASE("datum: a malformed message is refused with its byte offset") {
  const auto refusal = [](const Bytes& message) {
    return error_of<CorruptSample>([&] { parse_datum(message, "d"); });
  };
  CHECK(refusal(bytes({0x22, 9, 1})) ==
        "d: byte 0: field 4 has 9 bytes, but only 1 are left (cut off?)");
  CHECK(refusal(bytes({0x0A, 0})) == "d: byte 0: field 1: expected an integer");
  CHECK(refusal(bytes({0x20, 0})) == "d: byte 0: field 4: expected bytes");
  CHECK(refusal(bytes({0x32, 3, 0, 0, 0})) ==
        "d: byte 0: field 6: expected floats of 4 bytes each, got 3 bytes");
}

TEST_CASE("datum: auxiliary inputs survive a round trip and are concatenated in a sample") {
  const std::vector<float> pose{1, -2}, map{3, 4, 5};
  const Bytes image = bytes({1, 2, 3, 4, 5, 6});
  Datum datum = small(image);
  datum.extras = {{{"pose", {2}}, std::as_bytes(std::span(pose))},
                  {{"map", {1, 1, 3}}, std::as_bytes(std::span(map))}};
  const Bytes message = encode_datum(datum);
  const Datum again = parse_datum(message, "d");
  CHECK(encode_datum(again) == message);
  Sample sample;
  CHECK(copy_auxiliary_inputs(again, "d", sample) ==
        std::vector<AuxiliaryInput>{{"pose", {2}}, {"map", {1, 1, 3}}});
  std::vector<float> values(5);
  REQUIRE(sample.extras.size() == 5 * sizeof(float));
  std::ranges::copy(sample.extras, std::as_writable_bytes(std::span(values)).begin());
  CHECK(values == std::vector<float>{1, -2, 3, 4, 5});
}

TEST_CASE("datum: auxiliary inputs with a wrong size, shape or name are refused") {
  const std::vector<float> pose{1, -2};
  const Bytes image = bytes({1, 2, 3, 4, 5, 6});
  const auto fault_of = [&](const AuxiliaryInput& extra) {
    Datum datum = small(image);
    datum.extras = {{extra, std::as_bytes(std::span(pose))}};
    Sample sample;
    return error_of<CorruptSample>([&] { copy_auxiliary_inputs(datum, "d", sample); });
  };
  CHECK(fault_of({"pose", {3}}) == "d: extra \"pose\": expected 3 floats of 4 bytes, got 8 bytes");
  CHECK(fault_of({"pose", {1, 2}}) ==
        "d: extras/0/shape: expected [channels, height, width] or [values], got 2 numbers");
  CHECK(fault_of({"input", {2}}) ==
        "d: extras/0/name: \"input\" is reserved for the samples' images");
  CHECK(fault_of({"pose", {-2}}) ==
        "d: extras/0/shape: expected fewer than 2^28 values in all auxiliary inputs together");
}
