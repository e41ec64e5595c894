#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/batch_values.h"
#include "core/device.h"
#include "core/log.h"
#include "data/dataset.h"
#include "data/dataset_config.h"
#include "data/transform.h"

namespace poseidon::data {

/// A part of the global batch: samples first .. first + count - 1 of every step.
struct ShardRange {
  int64_t first = 0;
  int64_t count = 0;
  bool operator==(const ShardRange&) const = default;
};

/// The global batch cut into `shards` parts in order, the first ones larger by one where it does
/// not divide. Needs global_batch >= shards >= 1.
std::vector<ShardRange> cut_batch(int64_t global_batch, int64_t shards);

/// What batches are made for.
struct BatchMemory {
  /// Takes the memory that batches lie in; null: any memory of the host.
  std::function<Buffer(size_t bytes, std::string_view purpose)> take = {};
  /// They are pixels where data and transform keep them.
  bool pixels = false;
};

struct LoaderOptions {
  Phase phase = Phase::kTrain;
  uint64_t seed = 1;
  bool shuffle = true;
  OnError on_error = OnError::kStop;
  int64_t global_batch = 1;
  std::vector<Extra> extras = {};  ///< of the dataset's, those that batches hold, in this order
  /// This worker's parts of the global batch: next() gives them in this order, step after step.
  std::vector<ShardRange> shards;
  int64_t start_step = 0;     ///< steps already done, counted from 0
  int threads = 1;            ///< at least 1; few and light: they run at a low priority
  int64_t ready_batches = 3;  ///< prepared ahead, at most; at least 2
  BatchMemory memory = {};
};

/// One shard of one step, in host memory. Valid until the next call of next().
struct Batch {
  int64_t step = 0;   ///< counted from 0
  size_t shard = 0;   ///< index into LoaderOptions::shards
  int64_t epoch = 0;  ///< of the first sample
  /// Samples that count. In training always the shard's count; in testing less (also 0) at the end
  /// of a pass: what follows in `values` is zero, in `labels` 0, in `indices` -1.
  int64_t valid = 0;
  int64_t replaced = 0;  ///< samples that stand in for corrupt ones
  BatchValues values;
  /// All samples' values of the first of LoaderOptions::extras, then those of the next.
  std::span<const float> extras;
  std::span<const int32_t> labels;
  /// Of a training set that is mixed (MixConfig): the labels of all samples' second ones, whole
  /// numbers, and then the shares of these. `labels` are those that have the larger share; where
  /// both are one, or a sample is not mixed, the second share is 0. Else empty.
  std::span<const float> mixtures;
  std::span<const int64_t> indices;
};

/// Prepares batches ahead of their use in threads of its own. What next() gives depends on dataset,
/// transform, seed and step alone, never on the number of threads or on time. In training, epochs
/// follow one another without a gap (see Order). In testing, passes of ceil(samples / global_batch)
/// steps follow one another, each over the whole dataset in index order.
///
/// A sample is corrupt if its file is gone, damaged or unreadable, or if dataset or transform
/// refuse it. A corrupt sample stops the run (kStop). With kSkip the next good sample in index
/// order replaces it, and a warning names it. Only the first hundred are named; each of them is
/// named once.
///
/// A sample that is mixed is prepared with its partner, as that is prepared in the same epoch.
class Loader {
 public:
  /// `dataset`, `transform`, `log` and what gives memory must outlive the loader. Throws
  /// ConfigError for options that cannot be.
  Loader(const Dataset& dataset, const Transform& transform, const LoaderOptions& options,
         Log& log);
  ~Loader();

  /// The bytes that prepared batches take, of at most `samples` samples each, each of `values`
  /// values, those of its extras among them.
  static size_t bytes(int64_t samples, int64_t values, bool mixed,
                      int64_t ready_batches = LoaderOptions{}.ready_batches);

  /// Returns the next batch in order, and waits for it. An error met while preparing it is thrown
  /// here, again at every further call: CorruptSample or another RunError, never a ConfigError.
  const Batch& next();

  /// The batch that was given last is read until the event: its memory is written again after it.
  void keep_until(Event event);

  /// Steps of one pass over the dataset, the last one perhaps short.
  int64_t steps_per_pass() const;
  /// The distinct corrupt samples met so far, in batches handed out and in batches prepared ahead.
  int64_t corrupt_samples() const;
  /// Seconds that next() has waited for batches so far.
  double waited_seconds() const;

 private:
  class Ring;
  std::unique_ptr<Ring> ring_;
};

}  // namespace poseidon::data
