#pragma once

#include <cstdint>

namespace poseidon::data {

/// The sample at a position of an endless run of epochs.
struct OrderedSample {
  int64_t epoch = 0;
  int64_t index = 0;  ///< index in the dataset
};

/// The global order of samples: epochs follow one another without a gap, each a permutation of the
/// dataset that is a pure function of seed and epoch. Position p is the p-th sample ever used, so
/// the number of samples used so far is the whole cursor. It takes no memory, and any thread may
/// ask.
class Order {
 public:
  /// Without `shuffle` every epoch goes 0, 1, 2, ...
  Order(int64_t samples, uint64_t seed, bool shuffle);

  OrderedSample at(int64_t position) const;
  int64_t samples() const { return samples_; }

 private:
  int64_t permuted(int64_t epoch, int64_t place) const;

  int64_t samples_;
  uint64_t seed_;
  bool shuffle_;
  int half_bits_ = 1;  ///< the permutation works on numbers of 2 * half_bits_ bits
};

}  // namespace poseidon::data
