#include "importer/caffe_model.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/error.h"
#include "tests/importer/caffe_encoder.h"
#include "tests/support/error_of.h"

namespace poseidon::importer {
namespace {

using made::bytes;
using made::number;
using made::packed;
using made::Wire;
using Floats = std::vector<float>;
using Extents = std::vector<int64_t>;

std::vector<CaffeWeights> parsed(const Wire& wire) {
  const std::vector<std::byte> content = made::content_of(wire);
  return parse_caffemodel(content, "m.caffemodel");
}

std::string fault(const Wire& wire) {
  return error_of<ConfigError>([&] { parsed(wire); });
}

CaffeBlob parsed_blob(const Wire& blob) {
  return parsed(made::layer("a", {blob})).at(0).blobs.at(0);
}

std::string blob_fault(const Wire& blob) { return fault(made::layer("a", {blob})); }

}  // namespace

TEST_CASE("caffemodel: values of current layers and of V1 layers are read unchanged") {
  const Floats weight{1.5F, -2, 1e-40F, 3.402823e38F, -0.0F, 6}, bias{7, 8};
  const std::vector<CaffeWeights> layers =
      parsed(bytes(1, "net") + made::layer("conv", {made::blob({2, 3, 1, 1}, weight)}) +
             made::layer("relu", {}) +
             made::v1_layer(
                 "ip", {made::old_blob({1, 1, 2, 3}, weight), made::old_blob({1, 1, 1, 2}, bias)}));
  REQUIRE(layers.size() == 2);
  CHECK(layers[0].layer == "conv");
  CHECK(layers[0].blobs.at(0).shape == Extents{2, 3, 1, 1});
  CHECK(layers[0].blobs.at(0).values == weight);
  CHECK(std::signbit(layers[0].blobs.at(0).values[4]));
  CHECK(layers[1].layer == "ip");
  CHECK(layers[1].blobs.at(0).shape == Extents{1, 1, 2, 3});
  CHECK(layers[1].blobs.at(0).values == weight);
  CHECK(layers[1].blobs.at(1).values == bias);
}

TEST_CASE("caffemodel: packed, split, unpacked and double data are read") {
  const Wire two = made::shape({2});
  CHECK(parsed_blob(two + packed<float>(5, {1, 2})).values == Floats{1, 2});
  CHECK(parsed_blob(packed<float>(5, {1}) + two + packed<float>(5, {2})).values == Floats{1, 2});
  CHECK(parsed_blob(two + packed<double>(8, {0.1, 2})).values == Floats{0.1F, 2});
  const Wire single = made::tag(8, 1) + made::raw(3.5);
  CHECK(parsed_blob(made::shape({1}) + single).values == Floats{3.5F});
  // Unpacked extents, as an old writer may store them.
  CHECK(parsed_blob(bytes(7, number(1, 1) + number(1, 2)) + packed<float>(5, {1, 2})).shape ==
        Extents{1, 2});
  // A gradient that the file stores in addition is ignored.
  CHECK(parsed_blob(two + packed<float>(5, {1, 2}) + packed<float>(6, {3, 4})).values ==
        Floats{1, 2});
}

TEST_CASE("caffemodel: unknown fields of every wire type are skipped") {
  const Wire unknown = number(77, 1) + made::tag(78, 1) + made::raw(1.0) + bytes(79, "x") +
                       made::tag(80, 5) + made::raw(1.0F);
  const Wire layer = bytes(1, "a") + unknown + bytes(7, unknown + made::blob({1}, {5}));
  CHECK(parsed(unknown + bytes(100, layer)).at(0).blobs.at(0).values == Floats{5});
}

TEST_CASE("caffemodel: a damaged file is refused with the byte offset") {
  const Wire whole = made::layer("a", {made::blob({2}, {1, 2})});
  for (size_t length = 1; length < whole.size(); ++length) {
    CAPTURE(length);
    CHECK(fault(whole.substr(0, length)).find("(cut off?)") != std::string::npos);
  }
  CHECK(fault(Wire(1, '\x07')) ==
        "m.caffemodel: byte 0: expected a field number from 1 to 536870911, got 0 (not protobuf?)");
  CHECK(fault(Wire(1, '\x0b')) ==
        "m.caffemodel: byte 0: expected a wire type of 0, 1, 2 or 5, got 3 (not protobuf?)");
  CHECK(fault(Wire(11, '\xff')) ==
        "m.caffemodel: byte 0: expected a field's tag of at most 64 bits, got more");
  CHECK(fault(made::tag(100, 2) + made::varint(uint64_t{1} << 63)) ==
        "m.caffemodel: byte 0: field 100 has 9223372036854775808 bytes, but only 0 are left (cut "
        "off?)");
  CHECK(fault(number(100, 3)) ==
        "m.caffemodel: byte 0: field 100: expected a message, got a varint");
  CHECK(fault(bytes(100, bytes(1, "\xff"))) ==
        "m.caffemodel: byte 3: field 1: expected UTF-8, got \"\\xff\"");
  CHECK(fault(bytes(2, bytes(1, ""))).find("got V0") != std::string::npos);
}

TEST_CASE("caffemodel: shapes and sizes that do not match the data are refused") {
  CHECK(blob_fault(made::shape({3}) + packed<float>(5, {1, 2}))
            .find("expected 3 values for the tensor's shape, got 2") != std::string::npos);
  CHECK(blob_fault(made::shape({uint64_t{1} << 40}))
            .find("expected an extent up to 2147483647, got 1099511627776") != std::string::npos);
  CHECK(blob_fault(made::shape(std::vector<uint64_t>(5, 1 << 30)))
            .find("the shape has more than 2^63 elements") != std::string::npos);
  CHECK(blob_fault(made::shape(std::vector<uint64_t>(33, 1)))
            .find("expected a shape of at most 32 extents") != std::string::npos);
  CHECK(blob_fault(bytes(5, "abc")).find("expected values of 4 bytes, got 3 bytes") !=
        std::string::npos);
  CHECK(blob_fault(bytes(7, bytes(1, "\x80"))).find("ends within an extent") != std::string::npos);
  CHECK(fault(made::layer("a", std::vector<Wire>(65, made::blob({1}, {1}))))
            .find("expected at most 64 tensors in a layer, got more") != std::string::npos);
}

}  // namespace poseidon::importer
