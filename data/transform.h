#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/batch_values.h"
#include "core/shape.h"
#include "data/sample.h"
#include "data/transform_config.h"

namespace poseidon::data {

enum class Phase : uint8_t { kTrain, kTest };

/// Decoder and buffers of one thread that applies transforms.
class TransformScratch;
struct TransformScratchDelete {
  void operator()(TransformScratch* scratch) const;
};
using TransformScratchPtr = std::unique_ptr<TransformScratch, TransformScratchDelete>;
TransformScratchPtr make_transform_scratch();

/// A sample and the epoch for which it is prepared. Its random numbers depend only on this key and
/// the seed.
struct SampleKey {
  uint64_t epoch = 0;
  uint64_t index = 0;
};

/// Destination of a prepared sample. One of the two spans is empty.
struct SampleOutput {
  std::span<float> values;    ///< channels x height x width, normalized
  std::span<uint8_t> pixels;  ///< height x width x channels, not yet normalized
};

/// Prepares samples for a network input of a given shape. Immutable and thread-safe.
class Transform {
 public:
  /// `output` is channels, height, width; image files need 1 or 3 channels. If the rank of `source`
  /// is not 0, `source` is the shape of every sample and is checked here, before the first sample.
  /// Throws ConfigError if the options in `config` conflict or cannot produce `output`, or if the
  /// mean image cannot be opened. Throws RunError if the mean image is damaged.
  Transform(const TransformConfig& config, const Shape& output, Phase phase, uint64_t seed,
            const Shape& source = {});
  ~Transform();
  Transform(Transform&&) noexcept;

  const Shape& output() const;

  /// Returns true if pixels stay integers of 0 to 255 until normalization. The transform then does
  /// not resize, jitter, mix or subtract a mean image. The result is valid only for samples of
  /// pixels and images.
  bool keeps_pixels() const;
  /// Returns the mixup and CutMix options; null if samples are not mixed, as in testing.
  const MixConfig* mix() const;
  /// Returns the normalization. The caller must apply it to SampleOutput::pixels.
  const Normalization& normalization() const;

  /// Prepares `sample` and writes the result to `out`. `out.pixels` requires that keeps_pixels() is
  /// true and that the sample's form is not kFloats. Throws CorruptSample if the image cannot be
  /// decoded, ConfigError if the options cannot produce the output from this sample. Both messages
  /// contain `name`.
  void apply(const Sample& sample, SampleKey key, const SampleName& name, const SampleOutput& out,
             TransformScratch& scratch) const;
  void apply(const Sample& sample, SampleKey key, const SampleName& name, std::span<float> out,
             TransformScratch& scratch) const {
    apply(sample, key, name, SampleOutput{.values = out, .pixels = {}}, scratch);
  }

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

}  // namespace poseidon::data
