#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/batch_values.h"
#include "core/device.h"
#include "core/log.h"
#include "data/corrupt_samples.h"
#include "data/dataset.h"
#include "data/dataset_config.h"
#include "data/transform.h"

namespace poseidon::data {

/// A shard range of the global batch: samples first .. first + count - 1 of every step.
struct ShardRange {
  int64_t first = 0;
  int64_t count = 0;
  bool operator==(const ShardRange&) const = default;
};

/// Divides the global batch into `shards` consecutive ranges. If the division has a remainder r,
/// each of the first r ranges has one more sample. Requires global_batch >= shards >= 1.
std::vector<ShardRange> cut_batch(int64_t global_batch, int64_t shards);

/// Memory and form of the batches.
struct BatchMemory {
  /// Allocates memory for the batches, with any contents; null: normal host memory.
  std::function<Buffer(size_t bytes, std::string_view purpose)> allocate = {};
  /// True: batches contain 8-bit pixels if the dataset stores pixels or images and
  /// Transform::keeps_pixels() is true. In all other cases, batches contain floats.
  bool pixels = false;
};

struct LoaderOptions {
  Phase phase = Phase::kTrain;
  uint64_t seed = 1;
  bool shuffle = true;
  OnError on_error = OnError::kStop;
  /// The corrupt samples that earlier loaders of the dataset have skipped. It must outlive the
  /// loader. Null: no other loader reads the dataset.
  CorruptSamples* corrupt = nullptr;
  int64_t global_batch = 1;
  /// Auxiliary inputs that batches contain, in this order; a subset of the dataset's.
  std::vector<AuxiliaryInput> extras = {};
  /// This worker's shard ranges of the global batch. In every step, next() returns one batch for
  /// each range, in this order.
  std::vector<ShardRange> shards;
  int64_t start_step = 0;  ///< first step, counted from 0; equals the number of steps done before
  int threads = 1;         ///< at least 1; the threads run at low priority
  /// Number of batches in memory: the last returned batch, and batches prepared ahead. At least 2.
  int64_t ready_batches = 3;
  BatchMemory memory = {};
};

/// One shard of one step, in host memory. Valid until the next call of Loader::next().
struct Batch {
  int64_t step = 0;   ///< counted from 0
  size_t shard = 0;   ///< index into LoaderOptions::shards
  int64_t epoch = 0;  ///< epoch of the first sample
  /// Number of valid samples. In training, the shard's sample count. In testing, it may be smaller
  /// (even 0) at the end of a pass. The entries after the valid ones are 0 in `values`, `extras`
  /// and `labels`, and -1 in `indices`.
  int64_t valid = 0;
  /// Number of corrupt samples that other samples replace. Second samples of mixup and CutMix do
  /// not count.
  int64_t replaced = 0;
  BatchValues values;
  /// Auxiliary inputs, one after another in the order of LoaderOptions::extras, each with the
  /// values of all samples.
  std::span<const float> extras;
  std::span<const int32_t> labels;
  /// Labels of mixup and CutMix (see MixConfig); empty if samples are not mixed. Contains the
  /// second labels of all samples, as whole numbers, then the weights of all second labels.
  /// `labels` contains the labels with the larger weight. The second weight is 0 if a sample is not
  /// mixed or both labels are equal.
  std::span<const float> mixup_labels;
  std::span<const int64_t> indices;  ///< dataset index of each sample that was used
};

/// Prepares batches ahead of their use, in separate threads. The batches do not depend on the
/// number of threads or on timing. In training, epochs follow one another without a gap (see
/// Order). In testing, a pass has ceil(samples / global_batch) steps and reads the dataset in index
/// order.
///
/// A sample is corrupt if its file is missing, damaged or unreadable, or if the dataset or the
/// transform rejects it. With kStop, next() throws CorruptSample for a corrupt sample. With kSkip,
/// the next good sample in index order replaces it, and the log names each corrupt sample once, but
/// only the first 100. With kSkip, next() throws RunError after 1000 corrupt samples in a row, or
/// if the dataset has no good sample.
///
/// With mixup or CutMix, the second sample is preprocessed exactly as when it is a first sample in
/// the same epoch.
class Loader {
 public:
  /// `dataset`, `transform`, `log` and the allocator in `options.memory` must outlive the loader.
  /// Throws ConfigError if the options are invalid.
  Loader(const Dataset& dataset, const Transform& transform, const LoaderOptions& options,
         Log& log);
  ~Loader();

  /// Returns the bytes of memory for `ready_batches` batches of at most `samples` samples each.
  /// `values`: floats per sample, including auxiliary inputs. `mixed`: true with mixup or CutMix.
  static size_t bytes(int64_t samples, int64_t values, bool mixed,
                      int64_t ready_batches = LoaderOptions{}.ready_batches);

  /// Waits for the next batch in order and returns it. If its preparation failed, throws the error
  /// here and in each later call: CorruptSample or another RunError, never ConfigError.
  const Batch& next();

  /// Declares that the last returned batch is in use until `event`. The next call of next() first
  /// waits for the event. The loader overwrites the batch's memory only after the event.
  void keep_until(Event event);

  /// Returns the number of steps in one pass over the dataset. The last step of a test pass may
  /// have fewer samples.
  int64_t steps_per_pass() const;
  /// Returns the seconds that next() has waited so far, for batches and for events of keep_until().
  double waited_seconds() const;

 private:
  class Ring;
  std::unique_ptr<Ring> ring_;
};

}  // namespace poseidon::data
