#include "data/mnist.h"

#include <doctest/doctest.h>

#include "tests/data/made_files.h"

using namespace poseidon;
using namespace poseidon::data;
using made::Bytes;

namespace {

Bytes idx(uint32_t magic, const std::vector<uint32_t>& extents, size_t values) {
  Bytes bytes;
  made::put_big_endian(bytes, magic);
  for (uint32_t extent : extents) made::put_big_endian(bytes, extent);
  for (size_t i = 0; i < values; ++i) bytes.push_back(static_cast<std::byte>(i % 10));
  return bytes;
}

struct MnistFolder : made::Folder {
  MnistFolder() {
    made::write(*this / "train-images-idx3-ubyte", idx(0x803, {3, 2, 4}, 24));
    made::write(*this / "train-labels-idx1-ubyte.gz", made::gzipped(idx(0x801, {3}, 3)));
  }
};

}  // namespace

TEST_CASE("mnist: reads IDX files, plain and gzipped") {
  const MnistFolder folder;
  const auto dataset = open_mnist(folder.text(), "train");
  CHECK(dataset->size() == 3);
  CHECK(dataset->description().shape == Shape{1, 2, 4});
  CHECK(dataset->classes().size() == 10);
  CHECK(dataset->name(1) == "train-images-idx3-ubyte #1");
  CHECK(dataset->memory_bytes() == 3 * (8 + 1));  // pixels and a label
  Sample sample;
  dataset->read(2, sample);
  CHECK(sample.label == 2);
  CHECK(sample.form == SampleForm::kPixels);
  CHECK(sample.bytes.size() == 8);
  CHECK(sample.bytes[0] == std::byte{6});
  CHECK(sample.bytes[7] == std::byte{3});
}

TEST_CASE("mnist: the fingerprint depends on the labels but not on compression") {
  const MnistFolder folder;
  const std::string before = open_mnist(folder.text(), "train")->fingerprint();
  std::filesystem::remove(folder / "train-labels-idx1-ubyte.gz");
  made::write(folder / "train-labels-idx1-ubyte", idx(0x801, {3}, 3));
  CHECK(open_mnist(folder.text(), "train")->fingerprint() == before);
  Bytes other = idx(0x801, {3}, 3);
  other.back() = std::byte{9};
  made::write(folder / "train-labels-idx1-ubyte", other);
  CHECK(open_mnist(folder.text(), "train")->fingerprint() != before);
}

TEST_CASE("mnist: the error states the expected and the found header or size") {
  const auto parse = [](const Bytes& bytes) { parse_idx(bytes, 3, "f"); };
  CHECK_THROWS_WITH_AS(parse(Bytes(5)), "f: expected a header of 16 bytes, got 5", RunError);
  CHECK_THROWS_WITH_AS(parse(idx(0x801, {3, 2, 4}, 24)),
                       "f: byte 0: expected the magic number 0x00000803 (unsigned bytes, 3 "
                       "dimensions), got 0x00000801",
                       RunError);
  CHECK_THROWS_WITH_AS(parse(idx(0x803, {3, 2, 4}, 23)),
                       "f: expected 24 values after the header, got 23: the file is truncated",
                       RunError);
  CHECK_THROWS_WITH_AS(parse(idx(0x803, {3, 2, 4}, 25)),
                       "f: expected 24 values after the header, got 25", RunError);
  CHECK_THROWS_AS(parse(idx(0x803, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, 8)), RunError);
  CHECK_THROWS_AS(parse(idx(0x803, {3, 0, 4}, 0)), RunError);
}

TEST_CASE("mnist: missing files, mismatched counts and out-of-range labels are refused") {
  const MnistFolder folder;
  CHECK_THROWS_AS(open_mnist(folder.text(), "test"), ConfigError);
  std::filesystem::remove(folder / "train-labels-idx1-ubyte.gz");
  const std::string labels = (folder / "train-labels-idx1-ubyte").string();
  made::write(labels, idx(0x801, {2}, 2));
  CHECK_THROWS_WITH_AS(open_mnist(folder.text(), "train"),
                       (labels + ": expected 3 labels, one for each image, got 2").c_str(),
                       RunError);
  Bytes wrong = idx(0x801, {3}, 3);
  wrong[9] = std::byte{12};
  made::write(labels, wrong);
  CHECK_THROWS_WITH_AS(open_mnist(folder.text(), "train"),
                       (labels + ": sample 1: expected a label of 0 to 9, got 12").c_str(),
                       RunError);
  Bytes cut = made::gzipped(idx(0x801, {3}, 3));
  cut.resize(cut.size() - 9);
  made::write(labels, cut);
  CHECK_THROWS_WITH(open_mnist(folder.text(), "train"),
                    doctest::Contains("the gzip data end too early: the file is truncated"));
}

TEST_CASE("mnist: decompression stops at the size that the IDX header states") {
  const MnistFolder folder;
  std::filesystem::remove(folder / "train-images-idx3-ubyte");
  const std::string bomb = (folder / "train-images-idx3-ubyte.gz").string();
  made::write(bomb, made::gzipped(idx(0x803, {3, 2, 4}, 1 << 20)));
  CHECK_THROWS_WITH_AS(
      open_mnist(folder.text(), "train"),
      (bomb + ": expected 40 bytes after decompression, as the header states, got more").c_str(),
      RunError);
}
