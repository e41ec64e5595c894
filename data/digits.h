#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/dataset.h"

namespace poseidon::data {

/// Drawn digits, 28x28 grey, white on black: strokes of varying form, shift, rotation, scale,
/// slant, thickness and brightness, with noise. Every image is a function of seed, split ("train"
/// or "test") and index; sample i shows digit i % 10. Needs no files.
std::unique_ptr<Dataset> make_digits(int64_t samples, const std::string& split, uint64_t seed);

}  // namespace poseidon::data
