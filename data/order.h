#pragma once

#include <cstdint>

namespace poseidon::data {

/// The sample at a position of the endless sequence of epochs.
struct OrderedSample {
  int64_t epoch = 0;
  int64_t index = 0;  ///< index in the dataset
};

/// The global order of samples. Epochs follow one another without a gap. Each epoch is a
/// permutation of the dataset, a pure function of seed and epoch. Before the sample at position p,
/// training has used p samples. So a resumed run needs only the number of samples used before.
/// Stores no permutation. Thread-safe.
class Order {
 public:
  /// Without `shuffle`, every epoch has the order 0, 1, 2, ...
  Order(int64_t samples, uint64_t seed, bool shuffle);

  OrderedSample at(int64_t position) const;
  int64_t samples() const { return samples_; }

 private:
  int64_t permuted(int64_t epoch, int64_t place) const;

  int64_t samples_;
  uint64_t seed_;
  bool shuffle_;
  int half_bits_ = 1;  ///< the permutation works on integers of 2 * half_bits_ bits
};

}  // namespace poseidon::data
