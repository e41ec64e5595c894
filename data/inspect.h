#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/log.h"
#include "data/dataset.h"
#include "data/pack.h"
#include "data/pfm.h"

namespace poseidon::data {

/// Guesses the dataset type of `path` from the names of its files: "records", "mnist", "cifar10",
/// "cifar100" or "images".
std::string guess_type(const std::string& path);

struct Inspection {
  int64_t corrupt = 0;                    ///< the log names each corrupt sample
  std::vector<int64_t> samples_of_class;  ///< without corrupt samples
};

/// Reads every sample and decodes every image.
Inspection inspect(const Dataset& dataset, Log& log, const PackProgress& progress);

/// Returns channels, height and width of all image files, read from their headers. Stops at the
/// first difference and returns rank 0. Ignores files that are not images.
Shape shape_of_all(const Dataset& dataset, const PackProgress& progress);

/// Returns the mean of all samples, with 1 or 3 channels. Throws RunError if samples differ in
/// size.
FloatImage mean_image(const Dataset& dataset, const PackProgress& progress);

}  // namespace poseidon::data
