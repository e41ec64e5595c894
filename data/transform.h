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

/// The memory and the decoder of one thread that applies transforms.
class TransformScratch;
struct TransformScratchDelete {
  void operator()(TransformScratch* scratch) const;
};
using TransformScratchPtr = std::unique_ptr<TransformScratch, TransformScratchDelete>;
TransformScratchPtr make_transform_scratch();

/// The sample and the epoch that it is prepared for: with the seed, all that its random numbers
/// depend on.
struct SampleKey {
  uint64_t epoch = 0;
  uint64_t index = 0;
};

/// Where a sample goes, in one of two forms.
struct SampleOutput {
  std::span<float> values;    ///< channels x height x width, normalized; or
  std::span<uint8_t> pixels;  ///< height x width x channels, still to be normalized
};

/// Prepares samples for a network input of a given shape. Immutable, thread-safe.
class Transform {
 public:
  /// `output` is channels, height, width; 1 or 3 channels for images. `source`, when its rank is
  /// not 0, is the shape of every sample of the dataset, and is checked here rather than on the
  /// first sample. Throws ConfigError when the parts of `config` do not go together or cannot give
  /// `output`.
  Transform(const TransformConfig& config, const Shape& output, Phase phase, uint64_t seed,
            const Shape& source = {});
  ~Transform();
  Transform(Transform&&) noexcept;

  const Shape& output() const;

  /// Whether pixels stay whole numbers of 0 to 255 until they are normalized: nothing is resized,
  /// jittered, mixed, or subtracted that differs from pixel to pixel. Samples of floats are no
  /// pixels.
  bool keeps_pixels() const;
  /// How samples are to be mixed; null where they are not, as in testing.
  const MixConfig* mix() const;
  /// What is left to do of pixels.
  const Normalization& normalization() const;

  /// Writes a sample; pixels only where it keeps them. Throws CorruptSample when the image cannot
  /// be decoded, ConfigError when it does not come out in the wanted size; both begin with `name`.
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
