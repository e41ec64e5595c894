#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/dataset.h"

namespace poseidon::data {

/// Makes a dataset of floats without meaning, uniform with mean 0 and variance 1, with labels
/// uniform over `classes`; all are functions of seed and index. `shape` is channels, height, width.
/// `extras` are made of floats as the samples are. Throws ConfigError for what is too large.
std::unique_ptr<Dataset> make_random(const Shape& shape, int64_t classes, int64_t samples,
                                     uint64_t seed, std::vector<Extra> extras = {});

/// Makes a dataset of 8-bit pixels, uniform over 0 to 255, which a record set can hold; labels and
/// extras are as above.
std::unique_ptr<Dataset> make_random_pixels(const Shape& shape, int64_t classes, int64_t samples,
                                            uint64_t seed, std::vector<Extra> extras = {});

}  // namespace poseidon::data
