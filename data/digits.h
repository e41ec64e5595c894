#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/dataset.h"

namespace poseidon::data {

/// Creates a dataset of drawn digits: 28x28 gray images, white on black. The strokes vary in form,
/// shift, rotation, scale, slant, thickness and brightness, and noise is added. Each image is a
/// function of seed, split ("train" or "test") and index. Sample i shows digit i % 10. Needs no
/// files.
std::unique_ptr<Dataset> make_digits(int64_t samples, const std::string& split, uint64_t seed);

}  // namespace poseidon::data
