#pragma once

#include <memory>

#include "data/dataset.h"

namespace poseidon::data {

/// Makes a dataset of pairs, for siamese networks: sample i is sample i of `of` and, in channels of
/// its own behind it, a partner that is a function of i. The label is 1 where the two are of one
/// class, which is so of every second pair as far as a partner of that kind is found, else 0.
/// Throws ConfigError unless the samples are pixels or floats of one shape.
std::unique_ptr<Dataset> make_pairs(std::unique_ptr<Dataset> of);

}  // namespace poseidon::data
