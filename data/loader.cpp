#include "data/loader.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "core/buffer.h"
#include "core/error.h"
#include "core/even_parts.h"
#include "core/mutex.h"
#include "data/auxiliary_values.h"
#include "data/mix.h"
#include "data/order.h"

namespace poseidon::data {

namespace {

/// Lower priority than normal programs (0), so compute threads run first.
constexpr int kNiceness = 10;
constexpr int64_t kMaxChunk = 16;
constexpr int kMaxReplacements = 1000;

void yield_to_computing_threads() {
  // On Linux, the priority is per thread. A failure only reduces speed.
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNiceness);
}

/// Maps steps and batch positions to samples, for training and testing.
class Plan {
 public:
  Plan(int64_t samples, const LoaderOptions& options)
      : order_(samples, options.seed, options.shuffle && options.phase == Phase::kTrain),
        global_batch_(options.global_batch),
        testing_(options.phase == Phase::kTest) {}

  int64_t steps_per_pass() const { return (order_.samples() + global_batch_ - 1) / global_batch_; }
  /// Returns sample `i` of the global batch of `step`. The index is -1 after the end of a test
  /// pass.
  OrderedSample at(int64_t step, int64_t i) const {
    if (!testing_) return order_.at(step * global_batch_ + i);
    const int64_t position = step % steps_per_pass() * global_batch_ + i;
    return {step / steps_per_pass(), position < order_.samples() ? position : -1};
  }
  int64_t samples() const { return order_.samples(); }

 private:
  Order order_;
  int64_t global_batch_;
  bool testing_;
};

/// Prepares one sample after another. Loader threads call it without holding the lock of the ring.
class SamplePreparer {
 public:
  SamplePreparer(const Dataset& dataset, const Transform& transform, const LoaderOptions& options,
                 Log& log)
      : dataset_(dataset),
        transform_(transform),
        on_error_(options.on_error),
        corrupt_(options.corrupt != nullptr ? *options.corrupt : own_corrupt_),
        log_(log) {}

  struct Memory {
    Sample sample;
    TransformScratchPtr scratch = make_transform_scratch();
    std::vector<float> second_sample;  ///< prepared values of the second sample (mixup, CutMix)
  };

  /// Fills `out` from sample `wanted`, or with OnError::kSkip from the next good sample. Returns
  /// the index of the sample used, which `memory.sample` then contains. With OnError::kStop, throws
  /// CorruptSample if the sample is corrupt. Throws RunError after too many corrupt samples in a
  /// row, or for an error outside the sample.
  int64_t prepare(OrderedSample wanted, const SampleOutput& out, Memory& memory) {
    int64_t index = wanted.index;
    const int64_t most = std::min<int64_t>(kMaxReplacements, dataset_.size());
    std::string fault;  // error of the last attempted sample
    for (int64_t attempt = 0; attempt < most; ++attempt) {
      fault = try_prepare({wanted.epoch, index}, out, memory);
      if (fault.empty()) return index;
      index = (index + 1) % dataset_.size();
    }
    throw RunError(text(dataset_.description().source, ": ", most,
                        " corrupt samples in a row, starting at ", dataset_.name(wanted.index),
                        "; the last one: ", fault));
  }

 private:
  /// Prepares exactly this sample. Returns the error if the sample is corrupt, else "". With
  /// OnError::kStop, throws the error. Later epochs read a corrupt sample again, because another
  /// random crop may not contain the damage.
  std::string try_prepare(OrderedSample at, const SampleOutput& out, Memory& memory) {
    try {
      prepare_exactly(at, out, memory);
      return "";
    } catch (const CorruptSample& error) {
      if (on_error_ == OnError::kStop) throw;
      corrupt_.note(at.index, error.what(), dataset_.description().source, log_);
      return error.what();
    }
  }

  /// Prepares this sample or throws. Converts ConfigError to CorruptSample, because dataset and
  /// transform have checked the configuration when they were created. A ConfigError here, such as
  /// for an image that is too small, is therefore a defect of the sample.
  void prepare_exactly(OrderedSample at, const SampleOutput& out, Memory& memory) {
    const auto name = [&] { return dataset_.name(at.index); };
    const SampleKey key{static_cast<uint64_t>(at.epoch), static_cast<uint64_t>(at.index)};
    try {
      dataset_.read(at.index, memory.sample);
      transform_.apply(memory.sample, key, name, out, *memory.scratch);
    } catch (const ConfigError& error) {
      throw CorruptSample(error.what());
    }
  }

  const Dataset& dataset_;
  const Transform& transform_;
  const OnError on_error_;
  CorruptSamples own_corrupt_;  ///< used without LoaderOptions::corrupt
  CorruptSamples& corrupt_;
  Log& log_;
};

/// Memory of one batch. During preparation, each thread writes only to the samples of its chunk.
struct Slot {
  Buffer values, extras, labels, mixup_labels;
  std::vector<int64_t> indices;
  Batch batch;
  int64_t chunks_left = 0;
  std::exception_ptr error;
  int64_t error_at = 0;  ///< first sample of the failed chunk, as an index in the batch
};

Buffer allocate_memory(const BatchMemory& memory, size_t bytes) {
  constexpr const char* kPurpose = "prefetched batches";
  return memory.allocate ? memory.allocate(bytes, kPurpose) : Buffer(bytes, kPurpose);
}

bool produces_pixels(const Dataset& dataset, const Transform& transform,
                     const LoaderOptions& options) {
  return options.memory.pixels && transform.keeps_pixels() && !dataset.description().floats;
}

std::optional<Mixer> make_mixer(const Dataset& dataset, const Transform& transform,
                                const LoaderOptions& options) {
  if (transform.mix() == nullptr) return std::nullopt;
  return Mixer(*transform.mix(), transform.output(), options.seed, dataset.size());
}

/// Consecutive samples of one batch, the unit of work of a thread. `sequence` is the sequence
/// number of the batch (Loader::Ring).
struct Chunk {
  int64_t sequence = 0, first = 0, count = 0;
};

}  // namespace

/// The loader's ring buffer of batches. Batches have sequence numbers 0, 1, ... from the start
/// step. Each step has one batch for each shard range. Batch n uses slot n % slots. When this slot
/// is free, the threads take the chunks of the batch in order.
class Loader::Ring {
 public:
  Ring(const Dataset& dataset, const Transform& transform, const LoaderOptions& options, Log& log);
  ~Ring();

  const Batch& next();
  void keep_until(Event event) { kept_until_ = std::move(event); }
  const Plan& plan() const { return plan_; }
  double waited_seconds() const { return waited_.load(); }

 private:
  void run();
  bool take_chunk(Chunk& chunk);
  void start_batch(Slot& slot, int64_t sequence) REQUIRES(mutex_);
  int64_t fill_chunk(const Chunk& chunk, SamplePreparer::Memory& memory);
  SampleOutput place_of(const Slot& slot, size_t sample) const;
  AuxiliaryValues::Place extras_place_of(const Slot& slot, size_t sample) const {
    return {slot.extras.as<float>(), sample, slot.batch.labels.size()};
  }
  int64_t fill_sample(Slot& slot, int64_t i, SamplePreparer::Memory& memory);
  void mix_sample(Slot& slot, size_t at, OrderedSample sample, SamplePreparer::Memory& memory);
  void finish_chunk(const Chunk& chunk, int64_t replaced, std::exception_ptr error);

  Slot& slot_of(int64_t sequence) { return slots_[static_cast<size_t>(sequence) % slots_.size()]; }
  const ShardRange& shard_of(int64_t sequence) const {
    return options_.shards[static_cast<size_t>(sequence) % options_.shards.size()];
  }
  int64_t chunk_size(int64_t count) const {
    return std::clamp<int64_t>(count / (2 * options_.threads), 1, kMaxChunk);
  }

  const LoaderOptions options_;
  const size_t sample_count_;  ///< values per sample
  const AuxiliaryValues extras_;
  /// Normalization that the caller of next() applies; null: batches are floats.
  const Normalization* const normalization_;
  const Plan plan_;
  const std::optional<Mixer> mixer_;
  SamplePreparer preparer_;  ///< thread-safe
  /// End of use of the last returned batch. Only the thread that calls next() uses it.
  Event kept_until_;
  std::atomic<double> waited_{0};

  Mutex mutex_;
  Condition room_, ready_;
  std::vector<Slot> slots_;  ///< mutex_ guards chunks_left, error, error_at, batch.replaced
  Chunk next_ GUARDED_BY(mutex_);
  int64_t given_ GUARDED_BY(mutex_) = 0;  ///< number of batches that next() returned or waits for
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::exception_ptr failure_ GUARDED_BY(mutex_);

  std::vector<std::jthread> threads_;  ///< last member: the threads use all other members
};

Loader::Ring::Ring(const Dataset& dataset, const Transform& transform, const LoaderOptions& options,
                   Log& log)
    : options_(options),
      sample_count_(static_cast<size_t>(transform.output().count())),
      extras_(dataset.description(), options.extras),
      normalization_(produces_pixels(dataset, transform, options) ? &transform.normalization()
                                                                  : nullptr),
      plan_(dataset.size(), options),
      mixer_(make_mixer(dataset, transform, options)),
      preparer_(dataset, transform, options, log),
      slots_(static_cast<size_t>(options.ready_batches)) {
  size_t largest = 0;
  for (const ShardRange& shard : options_.shards)
    largest = std::max(largest, static_cast<size_t>(shard.count));
  const size_t bytes_of_value = normalization_ != nullptr ? sizeof(uint8_t) : sizeof(float);
  for (Slot& slot : slots_) {
    slot.values = allocate_memory(options_.memory, largest * sample_count_ * bytes_of_value);
    if (extras_.count() > 0)
      slot.extras = allocate_memory(options_.memory, largest * extras_.count() * sizeof(float));
    slot.labels = allocate_memory(options_.memory, largest * sizeof(int32_t));
    if (mixer_) slot.mixup_labels = allocate_memory(options_.memory, 2 * largest * sizeof(float));
    slot.indices.resize(largest);
  }
  for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { run(); });
}

/// Waits until the device no longer uses the last returned batch. Then another loader may reuse the
/// memory of the batch (core/buffer_cache.h).
Loader::Ring::~Ring() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    room_.notify_all();
  }
  try {
    kept_until_.wait();
  } catch (...) {
    // The device has failed, so it does not use the batch. Its next call reports the failure.
  }
}

void Loader::Ring::run() {
  yield_to_computing_threads();
  SamplePreparer::Memory memory;
  Chunk chunk;
  while (take_chunk(chunk)) {
    int64_t replaced = 0;
    std::exception_ptr error;
    try {
      replaced = fill_chunk(chunk, memory);
    } catch (...) {
      error = std::current_exception();
    }
    finish_chunk(chunk, replaced, error);
  }
}

bool Loader::Ring::take_chunk(Chunk& chunk) {
  MutexLock lock(mutex_);
  // The slot of the last returned batch is in use until the next call of next().
  const auto room_end = [this]() REQUIRES(mutex_) {
    return std::max<int64_t>(given_ - 1, 0) + static_cast<int64_t>(slots_.size());
  };
  while (!stopping_ && next_.sequence >= room_end()) room_.wait(mutex_);
  if (stopping_) return false;
  const int64_t count = shard_of(next_.sequence).count;
  if (next_.first == 0) start_batch(slot_of(next_.sequence), next_.sequence);
  chunk = next_;
  chunk.count = std::min(chunk_size(count), count - next_.first);
  next_.first += chunk.count;
  if (next_.first >= count) next_ = {next_.sequence + 1, 0, 0};
  return true;
}

void Loader::Ring::start_batch(Slot& slot, int64_t sequence) {
  const int64_t shards = static_cast<int64_t>(options_.shards.size());
  const ShardRange& range = shard_of(sequence);
  const size_t count = static_cast<size_t>(range.count);
  const int64_t chunk = chunk_size(range.count);
  slot.chunks_left = std::max<int64_t>(1, (range.count + chunk - 1) / chunk);
  slot.error = nullptr;
  Batch& batch = slot.batch;
  batch.step = options_.start_step + sequence / shards;
  batch.shard = static_cast<size_t>(sequence % shards);
  batch.epoch = plan_.at(batch.step, range.first).epoch;
  batch.valid = 0;
  while (batch.valid < range.count && plan_.at(batch.step, range.first + batch.valid).index >= 0)
    ++batch.valid;
  batch.replaced = 0;
  batch.values = {.floats = {}, .pixels = {}, .normalization = normalization_};
  if (normalization_ != nullptr)
    batch.values.pixels = slot.values.as<uint8_t>().first(count * sample_count_);
  else
    batch.values.floats = slot.values.as<float>().first(count * sample_count_);
  batch.extras = slot.extras.as<float>().first(count * extras_.count());
  batch.labels = slot.labels.as<int32_t>().first(count);
  if (mixer_) batch.mixup_labels = slot.mixup_labels.as<float>().first(2 * count);
  batch.indices = std::span(slot.indices).first(count);
}

int64_t Loader::Ring::fill_chunk(const Chunk& chunk, SamplePreparer::Memory& memory) {
  Slot& slot = slot_of(chunk.sequence);
  int64_t replaced = 0;
  for (int64_t i = chunk.first; i < chunk.first + chunk.count; ++i)
    replaced += fill_sample(slot, i, memory);
  return replaced;
}

SampleOutput Loader::Ring::place_of(const Slot& slot, size_t sample) const {
  const size_t first = sample * sample_count_;
  if (normalization_ != nullptr)
    return {.values = {}, .pixels = slot.values.as<uint8_t>().subspan(first, sample_count_)};
  return {.values = slot.values.as<float>().subspan(first, sample_count_), .pixels = {}};
}

/// Prepares sample `i` of the batch in `slot`. Writes zeros after the end of a test pass. Returns 1
/// if another sample replaces a corrupt one, else 0.
int64_t Loader::Ring::fill_sample(Slot& slot, int64_t i, SamplePreparer::Memory& memory) {
  const size_t at = static_cast<size_t>(i);
  const SampleOutput out = place_of(slot, at);
  const std::span<int32_t> labels = slot.labels.as<int32_t>();
  const OrderedSample wanted =
      plan_.at(slot.batch.step, options_.shards[slot.batch.shard].first + i);
  if (wanted.index < 0) {
    std::ranges::fill(out.values, 0.0F);
    std::ranges::fill(out.pixels, uint8_t{0});
    extras_.clear(extras_place_of(slot, at));
    labels[at] = 0;
    slot.indices[at] = -1;
    return 0;
  }
  slot.indices[at] = preparer_.prepare(wanted, out, memory);
  extras_.put(memory.sample, extras_place_of(slot, at));
  labels[at] = memory.sample.label;
  if (mixer_) mix_sample(slot, at, wanted, memory);
  return slot.indices[at] != wanted.index ? 1 : 0;
}

/// Mixes the prepared sample `at` of the slot with its second sample, if it has one. Writes both
/// labels and the weight of the second label. The label with the larger weight becomes the first
/// label. Overwrites `memory`.
void Loader::Ring::mix_sample(Slot& slot, size_t at, OrderedSample sample,
                              SamplePreparer::Memory& memory) {
  int32_t& label = slot.labels.as<int32_t>()[at];
  int32_t second = label;
  double lambda = 0;
  const auto decision =
      mixer_->draw({static_cast<uint64_t>(sample.epoch), static_cast<uint64_t>(sample.index)});
  if (decision) {
    memory.second_sample.resize(sample_count_);
    preparer_.prepare({sample.epoch, decision->second_sample},
                      {.values = memory.second_sample, .pixels = {}}, memory);
    mixer_->mix(*decision, memory.second_sample, place_of(slot, at).values);
    extras_.mix(memory.sample, decision->lambda, extras_place_of(slot, at));
    second = memory.sample.label;
    lambda = second == label ? 0 : decision->lambda;
    if (lambda > 0.5) {
      std::swap(label, second);
      lambda = 1 - lambda;
    }
  }
  const std::span<float> mixup_labels = slot.mixup_labels.as<float>();
  mixup_labels[at] = static_cast<float>(second);
  mixup_labels[slot.batch.labels.size() + at] = static_cast<float>(lambda);
}

void Loader::Ring::finish_chunk(const Chunk& chunk, int64_t replaced, std::exception_ptr error) {
  MutexLock lock(mutex_);
  Slot& slot = slot_of(chunk.sequence);
  slot.batch.replaced += replaced;
  // If several chunks fail, next() reports the first one in batch order, independent of timing.
  if (error != nullptr && (slot.error == nullptr || chunk.first < slot.error_at)) {
    slot.error = error;
    slot.error_at = chunk.first;
  }
  if (--slot.chunks_left == 0) ready_.notify_all();
}

const Batch& Loader::Ring::next() {
  const auto began = std::chrono::steady_clock::now();
  std::exchange(kept_until_, {}).wait();
  MutexLock lock(mutex_);
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  const int64_t sequence = given_++;
  room_.notify_all();
  Slot& slot = slot_of(sequence);
  while (next_.sequence <= sequence || slot.chunks_left > 0) ready_.wait(mutex_);
  waited_ =
      waited_ + std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (slot.error != nullptr) {
    failure_ = slot.error;
    std::rethrow_exception(failure_);
  }
  return slot.batch;
}

namespace {

[[noreturn]] void fail_option(const std::string& what) { throw ConfigError("loader: " + what); }

void check_options(const Dataset& dataset, const LoaderOptions& options) {
  if (dataset.size() < 1) fail_option("the dataset is empty");
  if (options.global_batch < 1 || options.global_batch > (int64_t{1} << 31))
    fail_option(text("expected a global batch of at least 1, got ", options.global_batch));
  if (options.threads < 1 || options.threads > 1024)
    fail_option(text("expected 1 to 1024 threads, got ", options.threads));
  if (options.ready_batches < 2)
    fail_option(text("expected at least 2 ready batches, got ", options.ready_batches));
  if (options.start_step < 0) fail_option("expected a start step of at least 0");
  if (options.shards.empty()) fail_option("expected at least one shard");
  for (const ShardRange& shard : options.shards)
    if (shard.first < 0 || shard.count < 0 || shard.first + shard.count > options.global_batch)
      fail_option(text("samples ", shard.first, " to ", shard.first + shard.count,
                       " are outside of the global batch of ", options.global_batch));
}

}  // namespace

std::vector<ShardRange> cut_batch(int64_t global_batch, int64_t shards) {
  check(shards >= 1 && global_batch >= shards, "a batch has at least one sample per shard");
  std::vector<ShardRange> ranges;
  for (int64_t i = 0; i < shards; ++i) {
    const IndexRange part = even_range(global_batch, shards, i);
    ranges.push_back({part.first, part.count});
  }
  return ranges;
}

Loader::Loader(const Dataset& dataset, const Transform& transform, const LoaderOptions& options,
               Log& log) {
  check_options(dataset, options);
  ring_ = std::make_unique<Ring>(dataset, transform, options, log);
}

Loader::~Loader() = default;

size_t Loader::bytes(int64_t samples, int64_t values, bool mixed, int64_t ready_batches) {
  const size_t of_sample = static_cast<size_t>(values) * sizeof(float) + sizeof(int32_t) +
                           (mixed ? 2 * sizeof(float) : 0) + sizeof(int64_t);
  return static_cast<size_t>(ready_batches * samples) * of_sample;
}

const Batch& Loader::next() { return ring_->next(); }
void Loader::keep_until(Event event) { ring_->keep_until(std::move(event)); }
int64_t Loader::steps_per_pass() const { return ring_->plan().steps_per_pass(); }
double Loader::waited_seconds() const { return ring_->waited_seconds(); }

}  // namespace poseidon::data
