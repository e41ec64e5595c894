#pragma once

#include <memory>

#include "data/dataset.h"

namespace poseidon::data {

/// Makes a dataset of pairs, for siamese networks. Sample i has the channels of sample i of the
/// dataset `of`, then the channels of a second sample of `of`. The choice of the second sample is a
/// function of i. The label is 1 if both samples have the same class, else 0. About half of the
/// pairs have equal classes, if a search of at most 100 samples finds suitable second samples.
/// Throws ConfigError if the shapes of samples may differ, or if the samples have auxiliary inputs.
/// read() throws ConfigError if the samples are image files.
std::unique_ptr<Dataset> make_pairs(std::unique_ptr<Dataset> of);

}  // namespace poseidon::data
