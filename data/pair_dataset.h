#pragma once

#include <memory>

#include "data/dataset.h"

namespace poseidon::data {

/// Makes a dataset of pairs, for siamese networks. Sample i has the channels of sample i of `of`,
/// then the channels of a second sample, which is a function of i. The label is 1 if both samples
/// have the same class, else 0. About half of the pairs have equal classes, if a search of limited
/// length finds such a second sample. Throws ConfigError unless the samples are pixels or floats of
/// one shape.
std::unique_ptr<Dataset> make_pairs(std::unique_ptr<Dataset> of);

}  // namespace poseidon::data
