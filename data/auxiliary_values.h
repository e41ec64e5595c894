#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "data/dataset.h"

namespace poseidon::data {

/// Copies the auxiliary inputs (core/auxiliary_input.h) of samples into a batch, and defines their
/// layout there. The batch stores all samples' values of one input, then those of the next input.
class AuxiliaryValues {
 public:
  /// `wanted`: the inputs that the network reads, in the order of the batch. Throws ConfigError if
  /// `data` lacks one of these inputs or stores it in another shape.
  AuxiliaryValues(const DatasetDescription& data, std::span<const AuxiliaryInput> wanted);

  /// Returns the number of floats that the auxiliary inputs of one sample have in a batch.
  size_t count() const { return count_; }
  /// Destination of the auxiliary inputs of one sample.
  struct Place {
    std::span<float> batch;          ///< auxiliary inputs of all samples
    size_t sample = 0, samples = 0;  ///< index of the sample; number of samples in the batch
  };
  /// Copies the wanted auxiliary inputs of `sample` to `place`.
  void put(const Sample& sample, const Place& place) const;
  /// Sets the values at `place` to 0. Used for batch entries without a sample.
  void clear(const Place& place) const;
  /// Replaces each value x at `place` by (1 - lambda) * x + lambda * y, where y is the
  /// corresponding value of `second_sample`. Used for both mixup and CutMix.
  void mix(const Sample& second_sample, double lambda, const Place& place) const;

 private:
  struct Part {
    size_t from = 0;  ///< offset in Sample::extras, in bytes
    /// Number of floats per sample. `count`: in this input. `before`: in all inputs that precede
    /// this input in the batch.
    size_t count = 0, before = 0;
  };
  std::span<const std::byte> bytes_of(const Part& part, const Sample& sample) const;
  static std::span<float> values_of(const Part& part, const Place& place);

  std::vector<Part> parts_;
  size_t count_ = 0;
  size_t bytes_ = 0;  ///< bytes that the dataset stores per sample for all auxiliary inputs
};

}  // namespace poseidon::data
