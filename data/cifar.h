#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "data/dataset.h"
#include "data/memory_dataset.h"

namespace poseidon::data {

/// How a record of a CIFAR file begins; 3 x 32 x 32 pixel bytes, plane after plane, follow.
struct CifarForm {
  int label_bytes = 1;  ///< the last of them is the label
  int classes = 10;
};
inline constexpr CifarForm kCifar10{.label_bytes = 1, .classes = 10};
inline constexpr CifarForm kCifar100{.label_bytes = 2, .classes = 100};

/// Parses the records of a file. Throws RunError, beginning with `name`, unless `bytes` are one or
/// more whole records with labels in range.
PixelFile parse_cifar(std::span<const std::byte> bytes, CifarForm form, const std::string& name);

/// Open the binary versions, from `folder` or from the original archive's folder inside it. `split`
/// is "train" or "test".
std::unique_ptr<Dataset> open_cifar10(const std::string& folder, const std::string& split);
std::unique_ptr<Dataset> open_cifar100(const std::string& folder, const std::string& split);

}  // namespace poseidon::data
