#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace poseidon::data {

/// A file in MNIST's IDX format with unsigned bytes. All numbers in the file are big-endian.
struct IdxFile {
  std::vector<int64_t> extents;
  std::span<const std::byte> values;  ///< points into the parsed bytes
};

/// Parses an IDX file of unsigned bytes with `dimensions` dimensions. Throws RunError whose message
/// begins with `name` if the format is wrong or the length differs from the header's extents.
IdxFile parse_idx(std::span<const std::byte> bytes, int dimensions, const std::string& name);

/// Opens MNIST, or a dataset in its format with 10 classes (Fashion-MNIST, KMNIST). Reads the two
/// files of `split` ("train" or "test") in `folder`, gzipped or not. Throws ConfigError if a file
/// does not exist, RunError if a file is damaged.
std::unique_ptr<Dataset> open_mnist(const std::string& folder, const std::string& split);

}  // namespace poseidon::data
