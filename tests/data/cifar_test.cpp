#include "data/cifar.h"

#include <doctest/doctest.h>

#include "tests/data/made_files.h"

using namespace poseidon;
using namespace poseidon::data;
using made::Bytes;

namespace {

/// Record i has label i and one color: red i, green 100 + i, blue 200 + i.
Bytes records(int count, int label_bytes) {
  Bytes bytes;
  for (int i = 0; i < count; ++i) {
    bytes.insert(bytes.end(), static_cast<size_t>(label_bytes), static_cast<std::byte>(i));
    for (int c = 0; c < 3; ++c)
      bytes.insert(bytes.end(), 1024, static_cast<std::byte>(100 * c + i));
  }
  return bytes;
}

}  // namespace

TEST_CASE("cifar: planar records are converted to interleaved pixels") {
  const made::Folder folder;
  made::write(folder / "cifar-10-batches-bin/test_batch.bin", records(4, 1));
  const auto dataset = open_cifar10(folder.text(), "test");
  CHECK(dataset->size() == 4);
  CHECK(dataset->classes()[3] == "cat");
  CHECK(dataset->description().shape == Shape{3, 32, 32});
  Sample sample;
  dataset->read(3, sample);
  CHECK(sample.label == 3);
  CHECK(sample.bytes.size() == 3072);
  CHECK(sample.bytes[0] == std::byte{3});
  CHECK(sample.bytes[3070] == std::byte{103});
  CHECK(sample.bytes[3071] == std::byte{203});
  CHECK(dataset->name(3) == "test_batch.bin #3");
}

TEST_CASE("cifar: the training set concatenates the five batch files in order") {
  const made::Folder folder;
  for (int i = 1; i <= 5; ++i)
    made::write(folder / ("data_batch_" + std::to_string(i) + ".bin"), records(i, 1));
  const auto dataset = open_cifar10(folder.text(), "train");
  CHECK(dataset->size() == 15);
  CHECK(dataset->name(0) == "data_batch_1.bin #0");
  CHECK(dataset->name(14) == "data_batch_5.bin #4");
}

TEST_CASE("cifar100: the label is the second label byte") {
  Bytes bytes = records(2, 2);
  bytes[0] = std::byte{19};
  bytes[1] = std::byte{77};
  CHECK(parse_cifar(bytes, kCifar100, "f").labels == std::vector<uint8_t>{77, 1});
}

TEST_CASE("cifar: truncated files, out-of-range labels and missing files are refused") {
  Bytes bytes = records(2, 1);
  bytes[3073] = std::byte{10};
  CHECK_THROWS_WITH_AS(parse_cifar(bytes, kCifar10, "f"),
                       "f: byte 3073: expected a label of 0 to 9, got 10", RunError);
  bytes.pop_back();
  CHECK_THROWS_WITH_AS(
      parse_cifar(bytes, kCifar10, "f"),
      "f: expected a multiple of 3073 bytes, got 6145: truncated, or not a binary CIFAR file",
      RunError);
  CHECK_THROWS_AS(parse_cifar({}, kCifar10, "f"), RunError);
  const made::Folder folder;
  CHECK_THROWS_AS(open_cifar10(folder.text(), "train"), ConfigError);
}
