#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace poseidon::data {

/// A file of MNIST's IDX form with unsigned bytes. All numbers in the file are big-endian.
struct IdxFile {
  std::vector<int64_t> extents;
  std::span<const std::byte> values;  ///< within the bytes that were parsed
};

/// Parses an IDX file. Throws RunError, beginning with `name`, unless `bytes` are an IDX file of
/// unsigned bytes with `dimensions` dimensions, and of exactly the length its header says.
IdxFile parse_idx(std::span<const std::byte> bytes, int dimensions, const std::string& name);

/// Opens MNIST, or a set of its form with 10 classes (Fashion-MNIST, KMNIST), from the two files of
/// `split` ("train" or "test") in `folder`, gzipped or not.
std::unique_ptr<Dataset> open_mnist(const std::string& folder, const std::string& split);

}  // namespace poseidon::data
