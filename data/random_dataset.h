#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/dataset.h"

namespace poseidon::data {

/// Creates a dataset of random floats, uniform with mean 0 and variance 1. Labels are uniform over
/// `classes`. All values are functions of seed and index. `shape` is channels, height, width.
/// `extras` are auxiliary inputs with values of the same distribution. Throws ConfigError if a
/// sample is too large or `extras` are invalid.
std::unique_ptr<Dataset> make_random(const Shape& shape, int64_t classes, int64_t samples,
                                     uint64_t seed, std::vector<AuxiliaryInput> extras = {});

/// Creates a dataset of random 8-bit pixels, uniform over 0 to 255. A record set can store them.
/// Labels and auxiliary inputs are as in make_random().
std::unique_ptr<Dataset> make_random_pixels(const Shape& shape, int64_t classes, int64_t samples,
                                            uint64_t seed, std::vector<AuxiliaryInput> extras = {});

}  // namespace poseidon::data
