#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/log.h"
#include "data/dataset.h"
#include "data/pack.h"
#include "data/pfm.h"

namespace poseidon::data {

/// The dataset type that `path` looks like: "records", "mnist", "cifar10", "cifar100" or "images".
std::string guess_type(const std::string& path);

struct Inspection {
  int64_t corrupt = 0;                    ///< each named in the log
  std::vector<int64_t> samples_of_class;  ///< without the corrupt ones
};

/// Reads every sample and decodes every image.
Inspection inspect(const Dataset& dataset, Log& log, const PackProgress& progress);

/// Channels, height and width of all image files, by their headers; rank 0 where two differ. Reads
/// up to the first that differs. Files that are no images do not count.
Shape shape_of_all(const Dataset& dataset, const PackProgress& progress);

/// The mean of all samples, as 1 or 3 channels. Throws RunError when they differ in size.
FloatImage mean_image(const Dataset& dataset, const PackProgress& progress);

}  // namespace poseidon::data
