#include "data/random_dataset.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/philox.h"
#include "data/fingerprint.h"

namespace poseidon::data {

namespace {

/// Random stream of the auxiliary inputs. The samples use stream 0, and PairDataset uses stream 1.
constexpr uint64_t kExtrasOfSamples = 2;

/// Fills `out` with uniform floats of mean 0 and variance 1, two from each 32-bit random word.
void fill_uniform(const RandomStream& random, std::span<float> out) {
  // A uniform distribution over a range of length sqrt(12) has variance 1.
  const float step = std::sqrt(12.0f) / 65536.0f;
  for (size_t i = 0; i < out.size(); i += 8) {
    const PhiloxBlock words = random.at(1 + i / 8);
    for (size_t k = 0; k < 8 && i + k < out.size(); ++k) {
      const uint32_t half = (words[k / 2] >> (16 * (k % 2))) & 0xFFFF;
      out[i + k] = (static_cast<float>(half) - 32767.5f) * step;
    }
  }
}

/// Fills `out` with random bytes, four from each 32-bit random word.
void fill_pixels(const RandomStream& random, std::span<std::byte> out) {
  for (size_t i = 0; i < out.size(); i += 16) {
    const PhiloxBlock words = random.at(1 + i / 16);
    std::memcpy(&out[i], words.data(), std::min<size_t>(16, out.size() - i));
  }
}

class RandomDataset final : public Dataset {
 public:
  RandomDataset(const Shape& shape, int64_t classes, int64_t samples, uint64_t seed,
                SampleForm form, std::vector<AuxiliaryInput> extras)
      : seed_(seed), form_(form) {
    description_.source = "random (generated)";
    description_.samples = samples;
    description_.floats = form == SampleForm::kFloats;
    description_.shape = shape;
    for (int64_t i = 0; i < classes; ++i) description_.classes.push_back(std::to_string(i));
    Fingerprint fingerprint;
    fingerprint.add(form == SampleForm::kFloats ? "random" : "random pixels");
    for (int64_t number : {shape[0], shape[1], shape[2], classes, samples})
      fingerprint.add(static_cast<uint64_t>(number));
    fingerprint.add(seed);
    fingerprint.add(extras);
    description_.fingerprint = fingerprint.hex();
    description_.extras = std::move(extras);
  }

  const DatasetDescription& description() const override { return description_; }

  void read(int64_t index, Sample& sample) const override {
    const RandomStream random(seed_, RandomPurpose::kGeneration, 0, static_cast<uint64_t>(index));
    const uint64_t classes = description_.classes.size();
    sample.label = static_cast<int32_t>((random.at(0)[0] * classes) >> 32);
    sample.form = form_;
    sample.channels = description_.shape[0];
    sample.height = description_.shape[1];
    sample.width = description_.shape[2];
    const size_t count = static_cast<size_t>(description_.shape.count());
    const size_t size = form_ == SampleForm::kFloats ? sizeof(float) : 1;
    sample.storage.resize(count * size);
    if (form_ == SampleForm::kFloats)
      fill_uniform(random, {reinterpret_cast<float*>(sample.storage.data()), count});
    else
      fill_pixels(random, sample.storage);
    sample.bytes = sample.storage;
    read_extras(static_cast<uint64_t>(index), sample);
  }

  std::string name(int64_t index) const override { return text("random #", index); }

 private:
  /// Creates the auxiliary inputs of sample `index`. Uses a separate random stream, so they do not
  /// change the sample's other values.
  void read_extras(uint64_t index, Sample& sample) const {
    if (description_.extras.empty()) return;
    const RandomStream random(seed_, RandomPurpose::kGeneration, kExtrasOfSamples, index);
    const auto count = static_cast<size_t>(count_of(description_.extras));
    sample.extras_storage.resize(count * sizeof(float));
    fill_uniform(random, {reinterpret_cast<float*>(sample.extras_storage.data()), count});
    sample.extras = sample.extras_storage;
  }

  DatasetDescription description_;
  uint64_t seed_;
  SampleForm form_;
};

std::unique_ptr<Dataset> make(const Shape& shape, int64_t classes, int64_t samples, uint64_t seed,
                              SampleForm form, std::vector<AuxiliaryInput> extras) {
  if (const AuxiliaryInputError fault = first_error_in(extras))
    throw ConfigError(text("random: extras", fault.pointer, ": ", fault.message));
  if (shape.count() > (int64_t{1} << 28))
    throw ConfigError(
        text("random: expected at most 2^28 values in a sample, got shape ", shape.text()));
  return std::make_unique<RandomDataset>(shape, classes, samples, seed, form, std::move(extras));
}

}  // namespace

std::unique_ptr<Dataset> make_random(const Shape& shape, int64_t classes, int64_t samples,
                                     uint64_t seed, std::vector<AuxiliaryInput> extras) {
  return make(shape, classes, samples, seed, SampleForm::kFloats, std::move(extras));
}

std::unique_ptr<Dataset> make_random_pixels(const Shape& shape, int64_t classes, int64_t samples,
                                            uint64_t seed, std::vector<AuxiliaryInput> extras) {
  return make(shape, classes, samples, seed, SampleForm::kPixels, std::move(extras));
}

}  // namespace poseidon::data
