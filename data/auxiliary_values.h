#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "data/dataset.h"

namespace poseidon::data {

/// Selects the auxiliary inputs of a dataset that a batch contains, and defines their layout. The
/// batch stores one input after another, each with the values of all samples.
class AuxiliaryValues {
 public:
  /// Throws ConfigError if the dataset does not have an input or has it in another shape.
  AuxiliaryValues(const DatasetDescription& data, std::span<const AuxiliaryInput> wanted);

  /// Returns the number of values per sample.
  size_t count() const { return count_; }
  /// Destination of a sample's values in a batch.
  struct Place {
    std::span<float> batch;
    size_t sample = 0, samples = 0;
  };
  void put(const Sample& sample, const Place& place) const;
  /// Writes zeros. Used for batch entries without a sample.
  void clear(const Place& place) const;
  /// Mixes the second sample's values into the values at `place`. `lambda` is the second sample's
  /// weight.
  void mix(const Sample& second_sample, double lambda, const Place& place) const;

 private:
  struct Part {
    size_t from = 0;  ///< offset in the sample's bytes
    size_t count = 0, before = 0;
  };
  std::span<const std::byte> bytes_of(const Part& part, const Sample& sample) const;
  static std::span<float> values_of(const Part& part, const Place& place);

  std::vector<Part> parts_;
  size_t count_ = 0;
  size_t bytes_ = 0;  ///< size of all auxiliary inputs of a sample of the dataset
};

}  // namespace poseidon::data
