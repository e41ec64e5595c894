#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "data/dataset.h"
#include "data/memory_dataset.h"

namespace poseidon::data {

/// Layout of a record of a CIFAR file: the label bytes, then 3 x 32 x 32 pixel bytes (channels x
/// height x width).
struct CifarForm {
  int label_bytes = 1;  ///< the last one is the class; CIFAR-100 has a coarse class first
  int classes = 10;
};
inline constexpr CifarForm kCifar10{.label_bytes = 1, .classes = 10};
inline constexpr CifarForm kCifar100{.label_bytes = 2, .classes = 100};

/// Parses the records of a file. Throws RunError whose message begins with `name` if `bytes` is
/// empty, contains a partial record or contains a label out of range.
PixelFile parse_cifar(std::span<const std::byte> bytes, CifarForm form, const std::string& name);

/// Open the binary versions of the datasets. The files are in `folder`, or in the subfolder that
/// the original archive contains. `split` is "train" or "test". Throw ConfigError if a file cannot
/// be opened, RunError if a file is damaged.
std::unique_ptr<Dataset> open_cifar10(const std::string& folder, const std::string& split);
std::unique_ptr<Dataset> open_cifar100(const std::string& folder, const std::string& split);

}  // namespace poseidon::data
