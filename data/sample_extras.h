#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "data/dataset.h"

namespace poseidon::data {

/// Which extras of a dataset's samples a batch holds, and where: all values of the first one,
/// sample after sample, then those of the next.
class SampleExtras {
 public:
  /// Throws ConfigError for one that the dataset has not, or has in another shape.
  SampleExtras(const DatasetDescription& data, std::span<const Extra> wanted);

  /// Of a sample.
  size_t count() const { return count_; }
  /// Where a batch holds what belongs to one of its samples.
  struct Place {
    std::span<float> batch;
    size_t sample = 0, samples = 0;
  };
  void put(const Sample& sample, const Place& place) const;
  /// Writes zeros, where a batch has no sample.
  void clear(const Place& place) const;
  /// Makes what is there a mixture with the partner's, which has this share.
  void mix(const Sample& partner, double share, const Place& place) const;

 private:
  struct Part {
    size_t from = 0;  ///< in a sample's bytes
    size_t count = 0, before = 0;
  };
  std::span<const std::byte> bytes_of(const Part& part, const Sample& sample) const;
  static std::span<float> values_of(const Part& part, const Place& place);

  std::vector<Part> parts_;
  size_t count_ = 0;
  size_t bytes_ = 0;  ///< of all that a sample of the dataset has
};

}  // namespace poseidon::data
