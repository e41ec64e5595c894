#include "data/loader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <numeric>
#include <thread>

#include "data/digits.h"
#include "data/image_folder.h"
#include "data/mix.h"
#include "data/order.h"
#include "data/random_dataset.h"
#include "tests/data/made_files.h"
#include "tests/data/recording_log.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::data;

namespace {

/// Sample i is a single pixel i with label i % 3. Some samples are corrupt, and reading sample
/// `broken` fails.
class CountingDataset final : public Dataset {
 public:
  explicit CountingDataset(int64_t samples, std::vector<int64_t> corrupt = {}, int64_t broken = -1)
      : corrupt_(std::move(corrupt)), broken_(broken) {
    description_.source = "counting";
    description_.samples = samples;
    description_.classes = {"a", "b", "c"};
    description_.shape = {1, 1, 1};
  }
  const DatasetDescription& description() const override { return description_; }
  void read(int64_t index, Sample& sample) const override {
    reads_.fetch_add(1);
    if (index == broken_) throw RunError(name(index) + ": the disk is gone");
    if (std::find(corrupt_.begin(), corrupt_.end(), index) != corrupt_.end())
      throw CorruptSample(name(index) + ": is corrupt");
    sample.label = static_cast<int32_t>(index % 3);
    sample.channels = sample.height = sample.width = 1;
    sample.storage.assign(1, static_cast<std::byte>(index));
    sample.bytes = sample.storage;
  }
  std::string name(int64_t index) const override { return "counting #" + std::to_string(index); }
  int64_t reads() const { return reads_.load(); }

 private:
  DatasetDescription description_;
  std::vector<int64_t> corrupt_;
  int64_t broken_;
  mutable std::atomic<int64_t> reads_{0};
};

struct Copy {
  int64_t step, epoch, valid, replaced;
  size_t shard;
  std::vector<float> pixels;
  std::vector<int32_t> labels;
  std::vector<float> mixup_labels;
  std::vector<int64_t> indices;
  bool operator==(const Copy&) const = default;
};

Copy copy_of(const Batch& batch) {
  return {batch.step,
          batch.epoch,
          batch.valid,
          batch.replaced,
          batch.shard,
          {batch.values.floats.begin(), batch.values.floats.end()},
          {batch.labels.begin(), batch.labels.end()},
          {batch.mixup_labels.begin(), batch.mixup_labels.end()},
          {batch.indices.begin(), batch.indices.end()}};
}

LoaderOptions options_for(int64_t global_batch, int threads) {
  LoaderOptions options;
  options.global_batch = global_batch;
  options.shards = {{0, global_batch}};
  options.threads = threads;
  return options;
}

std::vector<Copy> load(const Dataset& dataset, const Transform& transform,
                       const LoaderOptions& options, int count) {
  SilentLog log;
  Loader loader(dataset, transform, options, log);
  std::vector<Copy> batches;
  for (int i = 0; i < count; ++i) batches.push_back(copy_of(loader.next()));
  return batches;
}

Transform plain_transform(Phase phase = Phase::kTrain) {
  return Transform({}, {1, 1, 1}, phase, 1);
}

}  // namespace

TEST_CASE("loader: training batches follow the global order without gaps") {
  const CountingDataset dataset(10);
  const Transform transform = plain_transform();
  const Order order(10, 1, true);
  int64_t position = 0;
  for (const Copy& batch : load(dataset, transform, options_for(4, 1), 10)) {
    CHECK(batch.step == position / 4);
    CHECK(batch.epoch == position / 10);
    CHECK(batch.valid == 4);
    for (size_t i = 0; i < 4; ++i, ++position) {
      CHECK(batch.indices[i] == order.at(position).index);
      CHECK(batch.labels[i] == batch.indices[i] % 3);
      CHECK(batch.pixels[i] == static_cast<float>(batch.indices[i]));
    }
  }
}

TEST_CASE("loader: batches are equal for any number of threads") {
  const auto dataset = make_digits(50, "train", 1);
  TransformConfig config;
  config.padding = 2;
  config.crop = {28, 28};
  config.mirror = true;
  config.scale = 1.0 / 256;
  const Transform transform(config, {1, 28, 28}, Phase::kTrain, 5);
  const auto one = load(*dataset, transform, options_for(16, 1), 12);
  for (int threads : {2, 3, 5}) {
    LoaderOptions options = options_for(16, threads);
    options.ready_batches = 2 + threads;
    CHECK(load(*dataset, transform, options, 12) == one);
  }
}

TEST_CASE("loader: a shard holds its range of the global batch on any worker") {
  const CountingDataset dataset(23);
  const Transform transform = plain_transform();
  const auto whole = load(dataset, transform, options_for(7, 1), 6);
  const auto parts = cut_batch(7, 3);
  CHECK(parts == std::vector<ShardRange>{{0, 3}, {3, 2}, {5, 2}});
  LoaderOptions options = options_for(7, 2);
  options.shards = {parts[1], parts[2]};
  options.start_step = 2;
  const auto shards = load(dataset, transform, options, 8);
  for (size_t i = 0; i < 8; ++i) {
    const size_t step = 2 + i / 2, shard = i % 2;
    CHECK(shards[i].step == static_cast<int64_t>(step));
    CHECK(shards[i].shard == shard);
    REQUIRE(shards[i].indices.size() == 2);
    for (size_t k = 0; k < 2; ++k)
      CHECK(shards[i].indices[k] == whole[step < 6 ? step : 5].indices[3 + 2 * shard + k]);
  }
}

TEST_CASE("loader: random augmentation of a sample is equal with 1, 2 and 3 workers") {
  const auto dataset = make_random_pixels({3, 14, 14}, 3, 17, 1);
  std::vector<TransformConfig> configs(3);
  configs[0].random_resized_crop = {.present = true, .size = {9, 9}};
  configs[1].crop = {9, 9};
  configs[1].jitter = {
      .present = true, .brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1};
  configs[2].random_resized_crop = configs[0].random_resized_crop;
  configs[2].jitter = configs[1].jitter;
  configs[2].mirror = true;
  for (const TransformConfig& config : configs) {
    const Transform transform(config, {3, 9, 9}, Phase::kTrain, 5);
    const auto together = [&](int64_t workers) {
      std::vector<float> values;  // of all workers' shards, step by step
      std::vector<std::vector<Copy>> of_worker;
      for (const ShardRange& shard : cut_batch(12, workers)) {
        LoaderOptions options = options_for(12, static_cast<int>(workers));
        options.shards = {shard};
        of_worker.push_back(load(*dataset, transform, options, 4));
      }
      for (size_t step = 0; step < 4; ++step)
        for (const auto& batches : of_worker)
          values.insert(values.end(), batches[step].pixels.begin(), batches[step].pixels.end());
      return values;
    };
    const auto one = together(1);
    CHECK(together(2) == one);
    CHECK(together(3) == one);
  }
}

TEST_CASE("loader: test batches follow the dataset order, and the last batch is padded") {
  const CountingDataset dataset(10);
  const Transform transform = plain_transform(Phase::kTest);
  LoaderOptions options = options_for(4, 2);
  options.phase = Phase::kTest;
  options.shards = cut_batch(4, 2);
  SilentLog log;
  CHECK(Loader(dataset, transform, options, log).steps_per_pass() == 3);
  const auto batches = load(dataset, transform, options, 8);
  CHECK(batches[0].indices == std::vector<int64_t>{0, 1});
  CHECK(batches[1].indices == std::vector<int64_t>{2, 3});
  CHECK(batches[4].indices == std::vector<int64_t>{8, 9});
  CHECK(batches[5].valid == 0);
  CHECK(batches[5].indices == std::vector<int64_t>{-1, -1});
  CHECK(batches[5].pixels == std::vector<float>{0, 0});
  CHECK(batches[6].indices == std::vector<int64_t>{0, 1});
  CHECK(batches[6].epoch == 1);
}

TEST_CASE("loader: corrupt samples are reported once, counted and replaced by the next good one") {
  const CountingDataset dataset(9, {4, 5, 8});
  const Transform transform = plain_transform();
  LoaderOptions options = options_for(9, 3);
  options.on_error = OnError::kSkip;
  options.shuffle = false;
  CorruptSamples corrupt;
  options.corrupt = &corrupt;
  RecordingLog log;
  for (int pass = 0; pass < 2; ++pass) {
    Loader loader(dataset, transform, options, log);
    for (int step = 0; step < 3; ++step) {
      const Copy batch = copy_of(loader.next());
      CHECK(batch.indices == std::vector<int64_t>{0, 1, 2, 3, 6, 6, 6, 7, 0});
      CHECK(batch.labels[4] == 0);
      CHECK(batch.replaced == 3);
    }
  }
  CHECK(corrupt.count() == 3);
  CHECK(log.sorted() == std::vector<std::string>{"counting #4: is corrupt; skipped",
                                                 "counting #5: is corrupt; skipped",
                                                 "counting #8: is corrupt; skipped"});
}

TEST_CASE("loader: an error is thrown with the batch of its sample, and by later calls") {
  const Transform transform = plain_transform();
  SilentLog log;
  for (int threads : {1, 4}) {
    LoaderOptions options = options_for(4, threads);
    options.shuffle = false;
    const CountingDataset corrupt(12, {9, 10});
    Loader stopping(corrupt, transform, options, log);
    CHECK_NOTHROW(stopping.next());
    CHECK_NOTHROW(stopping.next());
    CHECK_THROWS_WITH_AS(stopping.next(), "counting #9: is corrupt", CorruptSample);
    CHECK_THROWS_WITH_AS(stopping.next(), "counting #9: is corrupt", CorruptSample);
    options.on_error = OnError::kSkip;
    const CountingDataset broken(12, {}, 5);
    Loader failing(broken, transform, options, log);
    CHECK_NOTHROW(failing.next());
    CHECK_THROWS_WITH_AS(failing.next(), "counting #5: the disk is gone", RunError);
  }
}

TEST_CASE("loader: a dataset with only corrupt samples is an error, not an endless loop") {
  const CountingDataset dataset(2, {0, 1});
  const Transform transform = plain_transform();
  LoaderOptions options = options_for(2, 1);
  options.on_error = OnError::kSkip;
  SilentLog log;
  Loader loader(dataset, transform, options, log);
  CHECK_THROWS_WITH_AS(loader.next(), doctest::Contains("; the last one: counting #"), RunError);
  CHECK_THROWS_WITH_AS(
      loader.next(),
      doctest::Contains("counting: 2 corrupt samples in a row, starting at counting #"), RunError);
}

namespace {

/// A folder of twelve images of 4 x 4 pixels in two classes, with a loader of one image per batch,
/// in order. The first batch has been read.
class FolderLoader {
 public:
  FolderLoader(
      const made::Folder& folder, OnError on_error, const std::function<void()>& before = [] {}) {
    for (int i = 0; i < 12; ++i)
      made::write(path_of(folder, i), made::pnm(made::smooth_image(4, 4, 3, i)));
    before();
    dataset_ = open_image_folder((folder / "set").string());
    TransformConfig config;
    config.crop = {4, 4};
    transform_ = std::make_unique<Transform>(config, Shape{3, 4, 4}, Phase::kTrain, 1);
    LoaderOptions options = options_for(1, 1);
    options.shuffle = false;
    options.on_error = on_error;
    options.ready_batches = 2;
    loader_ = std::make_unique<Loader>(*dataset_, *transform_, options, log_);
    loader_->next();
  }
  static std::filesystem::path path_of(const made::Folder& folder, int i) {
    const std::string two_digits = (i < 10 ? "0" : "") + std::to_string(i);
    return folder / ("set/" + std::string(i < 6 ? "a/" : "b/") + two_digits + ".ppm");
  }
  /// Loads the rest of two epochs. Returns the error, or "".
  std::string run() {
    return error_of<CorruptSample>([&] {
      for (int i = 1; i < 24; ++i) loader_->next();
    });
  }
  std::vector<std::string> warnings() { return log_.sorted(); }

 private:
  RecordingLog log_;
  std::unique_ptr<Dataset> dataset_;
  std::unique_ptr<Transform> transform_;
  std::unique_ptr<Loader> loader_;
};

/// Checks a fault of sample 8 during loading: it stops the run, or the sample is skipped with a
/// warning.
void check_sample_fault(const std::function<void(const std::filesystem::path&)>& damage,
                        const std::string& what, bool before = false) {
  for (const OnError on_error : {OnError::kStop, OnError::kSkip}) {
    const made::Folder folder;
    const std::filesystem::path path = FolderLoader::path_of(folder, 8);
    FolderLoader loader(folder, on_error, [&] {
      if (before) damage(path);
    });
    if (!before) damage(path);
    const bool stops = on_error == OnError::kStop;
    const std::string fault = path.string() + ": " + what;
    CHECK(loader.run() == (stops ? fault : ""));
    CHECK(loader.warnings() ==
          (stops ? std::vector<std::string>{} : std::vector<std::string>{fault + "; skipped"}));
  }
}

}  // namespace

TEST_CASE("loader: a missing or unreadable file is a corrupt sample") {
  check_sample_fault([](const auto& path) { std::filesystem::remove(path); },
                     "cannot be opened: No such file or directory");
  check_sample_fault(
      [](const auto& path) {
        std::filesystem::remove(path);
        std::filesystem::create_directory(path);
      },
      "expected a file, got a folder");
  check_sample_fault([](const auto& path) { made::write(path, {}); },
                     "byte 0: expected a JPEG, PNG, BMP or binary PNM image, got an empty file");
}

TEST_CASE("loader: an image that the transform refuses is a corrupt sample") {
  check_sample_fault(
      [](const auto& path) { made::write(path, made::pnm(made::smooth_image(3, 4, 3))); },
      "the transform's crop of 4x4 does not fit the image of 3x4; set \"resize_short\" in the "
      "transform to enlarge small images before the crop",
      true);
}

TEST_CASE("loader: only the first 100 corrupt samples are reported individually") {
  std::vector<int64_t> corrupt(150);
  std::iota(corrupt.begin(), corrupt.end(), 1);
  const CountingDataset dataset(300, corrupt);
  const Transform transform = plain_transform();
  LoaderOptions options = options_for(300, 2);
  options.on_error = OnError::kSkip;
  CorruptSamples found;
  options.corrupt = &found;
  RecordingLog log;
  Loader loader(dataset, transform, options, log);
  loader.next();
  CHECK(found.count() == 150);
  CHECK(log.sorted().size() == 101);
  CHECK(log.sorted().back() ==
        "counting: skipped 100 corrupt samples; further ones are skipped without a message");
}

TEST_CASE("loader: read-ahead is limited to the ring of batches") {
  const CountingDataset dataset(1000);
  const Transform transform = plain_transform();
  LoaderOptions options = options_for(10, 2);
  options.ready_batches = 3;
  SilentLog log;
  Loader loader(dataset, transform, options, log);
  for (int i = 0; i < 5; ++i) loader.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(dataset.reads() <= 70);  // five batches read, the fifth still in use, two more ready
}

TEST_CASE("loader: invalid thread counts and shard ranges are refused") {
  const CountingDataset dataset(10);
  const Transform transform = plain_transform();
  SilentLog log;
  const auto make = [&](const LoaderOptions& options) { Loader(dataset, transform, options, log); };
  LoaderOptions options = options_for(4, 0);
  CHECK_THROWS_WITH_AS(make(options), "loader: expected 1 to 1024 threads, got 0", ConfigError);
  options = options_for(4, 1);
  options.shards = {{2, 3}};
  CHECK_THROWS_WITH_AS(make(options), "loader: samples 2 to 5 are outside of the global batch of 4",
                       ConfigError);
  options.shards = {};
  CHECK_THROWS_AS(make(options), ConfigError);
}

TEST_CASE("loader: pixel batches carry the normalization that remains to be applied") {
  const CountingDataset dataset(10);
  TransformConfig config;
  config.mean = {4};
  config.scale = 0.25;
  const Transform transform(config, {1, 1, 1}, Phase::kTest, 1);
  LoaderOptions options = options_for(4, 2);
  options.phase = Phase::kTest;
  SilentLog log;
  Loader floats(dataset, transform, options, log);
  std::vector<size_t> taken;
  options.memory = {.allocate =
                        [&](size_t bytes, std::string_view purpose) {
                          taken.push_back(bytes);
                          return Buffer(bytes, purpose);
                        },
                    .pixels = true};
  Loader pixels(dataset, transform, options, log);
  CHECK(taken == std::vector<size_t>{4, 16, 4, 16, 4, 16});
  for (int step = 0; step < 6; ++step) {
    const Batch& expected = floats.next();
    const Batch& got = pixels.next();
    CHECK(std::ranges::equal(got.labels, expected.labels));
    CHECK(got.values.floats.empty());
    REQUIRE(got.values.pixels.size() == 4);
    CHECK(got.values.normalization == &transform.normalization());
    CHECK(expected.values.normalization == nullptr);
    for (size_t i = 0; i < 4; ++i)
      if (got.indices[i] >= 0)
        CHECK((static_cast<float>(got.values.pixels[i]) - 4) * 0.25F == expected.values.floats[i]);
      else
        CHECK(got.values.pixels[i] == 0);
  }
}

TEST_CASE("loader: batches are floats if the dataset or the transform yields no pixels") {
  SilentLog log;
  LoaderOptions options = options_for(2, 1);
  options.memory.pixels = true;
  const auto has_pixels = [&](const Dataset& dataset, const TransformConfig& config) {
    const Transform transform(config, {1, 1, 1}, Phase::kTrain, 1);
    Loader loader(dataset, transform, options, log);
    const Batch& batch = loader.next();
    CHECK(batch.values.count() == 2);
    CHECK(batch.values.floats.empty() == batch.values.are_pixels());
    return batch.values.are_pixels();
  };
  CHECK(has_pixels(CountingDataset(10), {}));
  CHECK_FALSE(has_pixels(*make_random({1, 1, 1}, 3, 10, 1), {}));
  CHECK(has_pixels(*make_random_pixels({1, 1, 1}, 3, 10, 1), {}));
  TransformConfig jittered;
  jittered.jitter.present = true;
  CHECK_FALSE(has_pixels(CountingDataset(10), jittered));
}

namespace {

/// An event that completes some time after a thread waits for it.
class LatePoint final : public Event::Point {
 public:
  explicit LatePoint(std::function<void()> before) : before_(std::move(before)) {}
  bool reached() const override { return false; }
  void wait() const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    before_();
  }
  void then(std::function<void()>) const override {}

 private:
  std::function<void()> before_;
};

}  // namespace

TEST_CASE("loader: the memory of a batch is not reused before its keep_until event") {
  const CountingDataset dataset(200);
  const Transform transform = plain_transform();
  LoaderOptions options = options_for(4, 2);
  options.ready_batches = 2;
  SilentLog log;
  int waits = 0;
  {
    Loader loader(dataset, transform, options, log);
    for (int step = 0; step < 5; ++step) {
      const Batch& batch = loader.next();
      const std::vector<float> values = copy_of(batch).pixels;
      const auto memory = batch.values.floats;
      loader.keep_until(Event(std::make_shared<LatePoint>([&, values, memory] {
        ++waits;
        CHECK(std::ranges::equal(values, memory));
      })));
    }
    CHECK(waits == 4);
  }
  CHECK(waits == 5);
}

namespace {

Transform mixing_transform(Phase phase = Phase::kTrain) {
  TransformConfig config;
  config.mix = {.present = true, .mixup = 0.5, .cutmix = 0, .probability = 0.8};
  return Transform(config, {1, 1, 1}, phase, 1);
}

}  // namespace

TEST_CASE("loader: mixup blends samples and lists the label with the larger weight first") {
  const CountingDataset dataset(10);
  const Transform transform = mixing_transform();
  const Mixer mixer(*transform.mix(), {1, 1, 1}, 1, 10);
  int swapped = 0, alone = 0;
  for (const Copy& batch : load(dataset, transform, options_for(4, 1), 20)) {
    REQUIRE(batch.mixup_labels.size() == 8);
    for (size_t i = 0; i < 4; ++i) {
      const auto own = static_cast<float>(batch.indices[i]);
      const auto epoch = static_cast<uint64_t>((batch.step * 4 + static_cast<int64_t>(i)) / 10);
      const auto decision = mixer.draw({epoch, static_cast<uint64_t>(batch.indices[i])});
      const auto label = static_cast<int32_t>(batch.indices[i] % 3);
      if (!decision) {
        ++alone;
        CHECK(batch.pixels[i] == own);
        CHECK(batch.labels[i] == label);
        CHECK(batch.mixup_labels[i] == static_cast<float>(label));
        CHECK(batch.mixup_labels[4 + i] == 0);
        continue;
      }
      const auto lambda = static_cast<float>(decision->lambda);
      // A compiler may fuse either product with the addition.
      const float sum = (1 - lambda) * own + lambda * static_cast<float>(decision->second_sample);
      CHECK(batch.pixels[i] == doctest::Approx(sum));
      const auto other = static_cast<int32_t>(decision->second_sample % 3);
      const bool swaps = decision->lambda > 0.5 && other != label;
      swapped += swaps ? 1 : 0;
      CHECK(batch.labels[i] == (swaps ? other : label));
      CHECK(batch.mixup_labels[i] == static_cast<float>(swaps ? label : other));
      const double second = other == label ? 0 : swaps ? 1 - decision->lambda : decision->lambda;
      CHECK(batch.mixup_labels[4 + i] == static_cast<float>(second));
    }
  }
  CHECK(swapped > 5);
  CHECK(alone > 5);
}

TEST_CASE("loader: mixup is equal for any threads, shards and start, also with corrupt samples") {
  const CountingDataset dataset(23, {4, 5});
  const Transform transform = mixing_transform();
  const auto with = [&](int threads, std::vector<ShardRange> shards, int64_t start, int count) {
    LoaderOptions options = options_for(7, threads);
    options.on_error = OnError::kSkip;
    options.shards = std::move(shards);
    options.start_step = start;
    return load(dataset, transform, options, count);
  };
  const auto whole = with(1, {{0, 7}}, 0, 9);
  CHECK(with(4, {{0, 7}}, 0, 9) == whole);
  const auto late = with(2, {{0, 7}}, 5, 4);
  CHECK(std::vector<Copy>(whole.begin() + 5, whole.end()) == late);
  const auto parts = with(1, {{0, 3}, {3, 4}}, 0, 18);
  for (size_t step = 0; step < 9; ++step)
    for (size_t i = 0; i < 7; ++i) {
      const Copy& part = parts[2 * step + (i < 3 ? 0 : 1)];
      const size_t at = i < 3 ? i : i - 3, count = part.labels.size();
      CHECK(part.pixels[at] == whole[step].pixels[i]);
      CHECK(part.labels[at] == whole[step].labels[i]);
      CHECK(part.mixup_labels[at] == whole[step].mixup_labels[i]);
      CHECK(part.mixup_labels[count + at] == whole[step].mixup_labels[7 + i]);
    }
}

TEST_CASE("loader: mixup does not affect test samples") {
  const CountingDataset dataset(5);
  LoaderOptions options = options_for(5, 1);
  options.phase = Phase::kTest;
  const Copy batch = load(dataset, mixing_transform(Phase::kTest), options, 1).front();
  CHECK(batch.mixup_labels.empty());
  CHECK(batch.pixels == std::vector<float>{0, 1, 2, 3, 4});
  CHECK(batch.labels == std::vector<int32_t>{0, 1, 2, 0, 1});
}

namespace {

/// The auxiliary inputs of a network in its order: "pose" (2 values) and "map" (1 x 2 x 2).
const std::vector<AuxiliaryInput> kPoseAndMap{{"pose", {2}}, {"map", {1, 2, 2}}};

std::unique_ptr<Dataset> with_extras(int64_t samples) {
  return make_random({1, 2, 2}, 3, samples, 1, {{"map", {1, 2, 2}}, {"other", {5}}, {"pose", {2}}});
}

std::vector<float> extras_of(const Dataset& dataset, int64_t index) {
  Sample sample;
  dataset.read(index, sample);
  std::vector<float> values(sample.extras.size() / sizeof(float));
  std::ranges::copy(sample.extras, std::as_writable_bytes(std::span(values)).begin());
  return values;
}

/// The auxiliary inputs of each batch.
std::vector<std::vector<float>> load_extras(const Dataset& dataset, const Transform& transform,
                                            LoaderOptions options, int count) {
  options.extras = kPoseAndMap;
  SilentLog log;
  Loader loader(dataset, transform, options, log);
  std::vector<std::vector<float>> batches;
  for (int i = 0; i < count; ++i) {
    const Batch& batch = loader.next();
    batches.emplace_back(batch.extras.begin(), batch.extras.end());
  }
  return batches;
}

Transform transform_of_2x2(const MixConfig& mix = {}, Phase phase = Phase::kTrain) {
  TransformConfig config;
  config.mix = mix;
  config.mirror = true;
  return Transform(config, {1, 2, 2}, phase, 1);
}

}  // namespace

TEST_CASE("loader: a batch holds the requested auxiliary inputs in order, untransformed") {
  const auto dataset = with_extras(10);
  const Order order(10, 1, true);
  int64_t position = 0;
  for (const auto& batch : load_extras(*dataset, transform_of_2x2(), options_for(4, 2), 5)) {
    REQUIRE(batch.size() == 4 * 6);
    for (size_t i = 0; i < 4; ++i, ++position) {
      const std::vector<float> all = extras_of(*dataset, order.at(position).index);
      REQUIRE(all.size() == 4 + 5 + 2);
      CHECK(std::equal(all.begin() + 9, all.end(), batch.begin() + 2 * static_cast<int64_t>(i)));
      CHECK(std::equal(all.begin(), all.begin() + 4,
                       batch.begin() + 8 + 4 * static_cast<int64_t>(i)));
    }
  }
}

TEST_CASE("loader: a shard holds its auxiliary inputs, and zeros at positions without a sample") {
  const auto dataset = with_extras(5);
  LoaderOptions options = options_for(4, 1);
  options.phase = Phase::kTest;
  const Transform transform = transform_of_2x2({}, Phase::kTest);
  const auto whole = load_extras(*dataset, transform, options, 2);
  options.shards = {{0, 1}, {1, 3}};
  const auto parts = load_extras(*dataset, transform, options, 4);
  for (size_t i = 0; i < 3; ++i) {
    for (size_t k = 0; k < 2; ++k) CHECK(parts[1][2 * i + k] == whole[0][2 * (i + 1) + k]);
    for (size_t k = 0; k < 4; ++k) CHECK(parts[1][6 + 4 * i + k] == whole[0][8 + 4 * (i + 1) + k]);
  }
  CHECK(whole[1][0] != 0);
  for (size_t i = 2; i < 8; ++i) CHECK(whole[1][i] == 0);
  for (size_t i = 12; i < 24; ++i) CHECK(whole[1][i] == 0);
}

TEST_CASE("loader: mixup blends auxiliary inputs with the lambda of their samples") {
  const auto dataset = with_extras(10);
  const Transform transform =
      transform_of_2x2({.present = true, .mixup = 0.5, .cutmix = 0, .probability = 0.8});
  const Mixer mixer(*transform.mix(), {1, 2, 2}, 1, 10);
  const Order order(10, 1, true);
  const auto batches = load_extras(*dataset, transform, options_for(4, 1), 5);
  for (int64_t position = 0; position < 20; ++position) {
    const OrderedSample sample = order.at(position);
    const auto decision =
        mixer.draw({static_cast<uint64_t>(sample.epoch), static_cast<uint64_t>(sample.index)});
    const float lambda = decision ? static_cast<float>(decision->lambda) : 0;
    const std::vector<float> own = extras_of(*dataset, sample.index),
                             other = extras_of(*dataset, decision ? decision->second_sample : 0);
    const auto at = static_cast<size_t>(position % 4);
    CHECK(batches[static_cast<size_t>(position / 4)][2 * at] ==
          doctest::Approx((1 - lambda) * own[9] + lambda * other[9]));
  }
}

TEST_CASE("loader: missing auxiliary inputs and wrong shapes are refused") {
  const Transform transform = transform_of_2x2();
  SilentLog log;
  LoaderOptions options = options_for(4, 1);
  options.extras = kPoseAndMap;
  const auto refused = [&](std::vector<AuxiliaryInput> extras) {
    const auto dataset = make_random({1, 2, 2}, 3, 10, 1, std::move(extras));
    return error_of<ConfigError>([&] { Loader(*dataset, transform, options, log); });
  };
  CHECK(refused({{"map", {1, 2, 2}}}) ==
        "random (generated): expected an extra \"pose\" of shape 2 for the network input of that "
        "name, got map 1x2x2");
  CHECK(refused({{"map", {1, 2, 2}}, {"pose", {3}}}) ==
        "random (generated): extra \"pose\": expected shape 2 for the network input of that name, "
        "got 3");
  CHECK(refused({}).ends_with("got none"));
}
