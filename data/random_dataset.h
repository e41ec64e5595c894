#pragma once

#include <cstdint>
#include <memory>

#include "data/dataset.h"

namespace poseidon::data {

/// Floats without meaning, uniform with mean 0 and variance 1, and labels uniform over `classes`:
/// functions of seed and index. `shape` is channels, height, width.
std::unique_ptr<Dataset> make_random(const Shape& shape, int64_t classes, int64_t samples,
                                     uint64_t seed);

/// The same as pixels of 8 bits, uniform over 0 to 255: what a record set can hold.
std::unique_ptr<Dataset> make_random_pixels(const Shape& shape, int64_t classes, int64_t samples,
                                            uint64_t seed);

}  // namespace poseidon::data
