#include "data/pair_dataset.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/philox.h"
#include "data/fingerprint.h"

namespace poseidon::data {

namespace {

/// Maximum number of reads to find a second sample. The last sample read is then used, even if it
/// does not fit. Without this limit, a dataset of 1000 equally frequent classes would need 1000
/// reads on average for a pair of the same class.
constexpr int kMaxTries = 100;

class PairDataset final : public Dataset {
 public:
  explicit PairDataset(std::unique_ptr<Dataset> of) : base_(std::move(of)) {
    description_ = base_->description();
    const Shape& each = description_.shape;
    if (each.rank() != 3)
      throw ConfigError(description_.source +
                        ": \"pairs\" requires images of one size, got images that may differ in "
                        "size; pack images of one size with poseidon-data pack --decode");
    if (!description_.extras.empty())
      throw ConfigError(text(description_.source,
                             ": \"pairs\" requires a dataset without extras, got one with ",
                             text_of(description_.extras)));
    Fingerprint fingerprint;
    fingerprint.add("pairs");
    fingerprint.add(description_.fingerprint);
    description_.fingerprint = fingerprint.hex();
    description_.source += ", in pairs";
    description_.classes = {"different", "alike"};
    description_.shape = {2 * each[0], each[1], each[2]};
  }

  const DatasetDescription& description() const override { return description_; }
  size_t memory_bytes() const override { return base_->memory_bytes(); }

  std::string name(int64_t index) const override {
    Sample first, second;
    base_->read(index, first);
    return base_->name(index) + " and " + base_->name(read_partner(index, first, second));
  }

  void read(int64_t index, Sample& sample) const override {
    Sample first, second;
    base_->read(index, first);
    if (first.form == SampleForm::kEncoded)
      throw ConfigError(base_->name(index) +
                        ": \"pairs\" requires pixels, got encoded images; pack them with "
                        "poseidon-data pack --decode");
    read_partner(index, first, second);
    sample = {.label = first.label == second.label ? 1 : 0,
              .form = first.form,
              .height = first.height,
              .width = first.width,
              .channels = 2 * first.channels,
              .bytes = {},
              .storage = std::move(sample.storage)};
    sample.storage.resize(2 * first.bytes.size());
    interleave(first, second, sample.storage.data());
    sample.bytes = sample.storage;
  }

 private:
  /// Reads the second sample of a pair and returns its index.
  int64_t read_partner(int64_t index, const Sample& first, Sample& second) const {
    RandomStream random(0, RandomPurpose::kGeneration, 1, static_cast<uint64_t>(index));
    const bool wants_alike = random.next_below(2) == 1;
    for (int tries = 1;; ++tries) {
      const auto partner = static_cast<int64_t>(random.next_below(
          static_cast<uint32_t>(std::min<int64_t>(size(), std::numeric_limits<uint32_t>::max()))));
      base_->read(partner, second);
      const bool fits = (second.label == first.label) == wants_alike && partner != index;
      if (fits || tries == kMaxTries) return partner;
    }
  }

  /// Writes interleaved pixels. Each pixel has the channels of the first image, then those of the
  /// second image.
  static void interleave(const Sample& first, const Sample& second, std::byte* out) {
    const auto pixels = static_cast<size_t>(first.height * first.width);
    const size_t each = first.bytes.size() / pixels;
    for (size_t i = 0; i < pixels; ++i) {
      std::memcpy(out + 2 * i * each, first.bytes.data() + i * each, each);
      std::memcpy(out + (2 * i + 1) * each, second.bytes.data() + i * each, each);
    }
  }

  std::unique_ptr<Dataset> base_;
  DatasetDescription description_;
};

}  // namespace

std::unique_ptr<Dataset> make_pairs(std::unique_ptr<Dataset> of) {
  return std::make_unique<PairDataset>(std::move(of));
}

}  // namespace poseidon::data
