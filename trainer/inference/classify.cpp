#include "trainer/inference/classify.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/as_config_error.h"
#include "core/error.h"
#include "core/file.h"
#include "data/image.h"
#include "trainer/inference/trained_net.h"

namespace poseidon::trainer {

namespace fs = std::filesystem;

namespace {

constexpr size_t kShown = 5;

/// Refuses a network with auxiliary inputs, because an image file has no values for them.
void check_reads_images_alone(const net::Network& network) {
  if (network.extras().empty()) return;
  throw ConfigError(text("--classify: expected a network that reads only images, got \"",
                         network.name(),
                         "\", which has auxiliary inputs: ", text_of(network.extras())));
}

/// The transform of the job's test set, in phase kTest. If the test set has no transform or does
/// not exist, the transform of the training set.
data::Transform test_transform(const Job& job) {
  const data::DatasetConfig& test = job.config.data.test;
  const bool own = job.config.data.has_test && test.has_transform;
  const Shape& input = job.network->input();
  return as_config_error([&] {
    return data::Transform(own ? test.transform : job.config.data.train.transform,
                           Shape{input.channels(), input.height(), input.width()},
                           data::Phase::kTest, static_cast<uint64_t>(job.config.train.seed));
  });
}

class Classifier {
 public:
  Classifier(const Job& job, const RunOptions& options, Log& log)
      : score_layer_(score_layer(job.network->in_test())),
        trained_(job, options, {score_layer_}, log),
        transform_(test_transform(job)),
        scratch_(data::make_transform_scratch()),
        names_(class_names(job, options)),
        classes_(static_cast<size_t>(job.network->in_test().classes())),
        seed_(static_cast<uint64_t>(job.config.train.seed)),
        pixels_(static_cast<size_t>(trained_.net().input_shape().count())) {}

  /// Classifies at most one batch of images, and appends their results to `images`. The result of
  /// an image that cannot be read is an error.
  void classify(std::span<const fs::path> files, Json& images) {
    std::vector<std::pair<size_t, size_t>> read;  // index in `images`, index in the batch
    for (const fs::path& file : files) {
      images.push_back({{"file", file.string()}});
      try {
        prepare(file, read.size());
        read.emplace_back(images.size() - 1, read.size());
      } catch (const std::runtime_error& error) {
        images.back()["error"] = error.what();
      }
    }
    if (read.empty()) return;
    // Loss layers read the labels, but the scores do not depend on them.
    const std::vector<int32_t> labels(batch(), 0);
    trained_.net().set_input(pixels_);
    const layers::StepParameters numbers{.seed = seed_};
    trained_.net().forward({.phase = layers::Phase::kTest, .numbers = &numbers, .labels = labels});
    const std::vector<float> scores = trained_.net().output(score_layer_);
    for (const auto& [image, row] : read)
      images[image]["scores"] = best(std::span(scores).subspan(row * classes_, classes_));
  }

  size_t batch() { return static_cast<size_t>(trained_.net().input_shape().samples()); }
  const fs::path& weights() const { return trained_.weights(); }

 private:
  void prepare(const fs::path& file, size_t row) {
    read_file(file, data::kMaxEncodedBytes, sample_.storage);
    sample_.form = data::SampleForm::kEncoded;
    sample_.bytes = sample_.storage;
    const auto count = static_cast<size_t>(transform_.output().count());
    transform_.apply(
        sample_, {}, [&] { return file.string(); }, std::span(pixels_).subspan(row * count, count),
        *scratch_);
  }

  /// The most probable classes, in order of probability. Classes with equal probability stay in the
  /// order of their labels.
  Json best(std::span<const float> scores) const {
    std::vector<size_t> order(scores.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::greater{}, [&](size_t i) { return scores[i]; });
    const double highest = scores[order[0]];
    double sum = 0;
    for (float score : scores) sum += std::exp(score - highest);
    Json json = Json::array();
    for (size_t i = 0; i < std::min(order.size(), kShown); ++i)
      json.push_back({{"class", class_name(names_, order[i])},
                      {"probability", std::exp(scores[order[i]] - highest) / sum}});
    return json;
  }

  std::string score_layer_;
  TrainedNet trained_;
  data::Transform transform_;
  data::TransformScratchPtr scratch_;
  std::vector<std::string> names_;
  size_t classes_;
  uint64_t seed_;
  std::vector<float> pixels_;  ///< the images of a batch after the transform
  data::Sample sample_;
};

}  // namespace

Json classify(const Job& job, const RunOptions& options, const std::vector<fs::path>& images,
              Log& log) {
  check_reads_images_alone(*job.network);
  Classifier classifier(job, options, log);
  Json results = Json::array();
  for (size_t i = 0; i < images.size(); i += classifier.batch())
    classifier.classify(
        std::span(images).subspan(i, std::min(classifier.batch(), images.size() - i)), results);
  return {{"name", job.config.name},
          {"weights", classifier.weights().string()},
          {"images", std::move(results)}};
}

}  // namespace poseidon::trainer
