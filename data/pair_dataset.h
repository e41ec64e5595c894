#pragma once

#include <memory>

#include "data/dataset.h"

namespace poseidon::data {

/// Makes a dataset of pairs, for siamese networks. Sample i has the channels of sample i of the
/// dataset `of`, then the channels of a second sample of `of`. The choice of the second sample is a
/// function of i. The label is 1 if both samples have the same class, else 0. For about half of the
/// pairs, the choice searches for a sample of the same class, for the others of a different class.
/// After 100 unsuitable samples, it uses the last one. Throws ConfigError if the shapes of samples
/// may differ, or if the samples have auxiliary inputs. read() throws ConfigError if the samples
/// are image files.
std::unique_ptr<Dataset> make_pairs(std::unique_ptr<Dataset> of);

}  // namespace poseidon::data
