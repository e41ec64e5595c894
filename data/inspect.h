#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/log.h"
#include "data/dataset.h"
#include "data/pack.h"
#include "data/pfm.h"

namespace poseidon::data {

/// Guesses the dataset type of the folder `path` from the names of its files and subfolders:
/// "records", "mnist", "cifar10" or "cifar100". Returns "images" if no known name exists.
std::string guess_type(const std::string& path);

struct Inspection {
  int64_t corrupt = 0;                    ///< the log names each corrupt sample
  std::vector<int64_t> samples_of_class;  ///< by label, without corrupt samples
};

/// Reads every sample, decodes every image, and counts the samples of each class. Throws
/// ConfigError for a dataset of floats.
Inspection inspect(const Dataset& dataset, Log& log, const PackProgress& progress);

/// Returns channels, height and width if they are equal for all image files, else a shape of rank
/// 0. Decodes only the headers of the files. Ignores corrupt samples.
Shape shape_of_all(const Dataset& dataset, const PackProgress& progress);

/// Returns the mean of all samples at each pixel and channel, from 0 to 255. Throws RunError if a
/// sample is corrupt or if samples differ in size or channels, ConfigError for a dataset of floats
/// or for samples of other than 1 or 3 channels.
FloatImage mean_image(const Dataset& dataset, const PackProgress& progress);

}  // namespace poseidon::data
