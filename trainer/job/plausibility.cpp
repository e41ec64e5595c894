#include "trainer/job/plausibility.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>

#include "core/counted.h"
#include "core/error.h"
#include "core/name_list.h"
#include "layers/accuracy.h"
#include "layers/batch_norm.h"
#include "layers/dropout.h"

namespace poseidon::trainer {

namespace {

using net::Network;
using net::Node;

/// Collects the warnings of the rules. Each rule checks for one kind of doubtful setting.
class SettingWarnings {
 public:
  explicit SettingWarnings(const Job& job) : job_(job) {}

  void in_job(const std::string& pointer, const std::string& message) {
    all_.push_back(job_.file + ": " + pointer + ": " + message);
  }
  void in_network(const std::string& message) {
    all_.push_back(job_.network->file() + ": " + message);
  }
  std::vector<std::string> take() { return std::move(all_); }

 private:
  const Job& job_;
  std::vector<std::string> all_;
};

std::string layer_text(const Node& node) {
  return text(node.definition->type(), " \"", node.definition->name, "\"");
}

/// Formats a number for people, with 4 significant digits.
std::string short_number(double value) {
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.4g", value);
  return out.data();
}

// ---- samples and their transforms

constexpr double kWhitePixel = 255;

struct Part {
  const char* name;  ///< "train"
  const data::DatasetConfig& config;
  const std::optional<data::DatasetDescription>& known;
};

/// The training set, and the test set if it has its own transform.
std::vector<Part> prepared_parts(const RunFacts& facts) {
  const DataConfig& data = facts.job.config.data;
  std::vector<Part> parts{{"train", data.train, facts.data.train}};
  if (data.has_test && data.test.has_transform)
    parts.push_back({"test", data.test, facts.data.test});
  return parts;
}

/// True if the samples are known to be pixels from 0 to 255.
bool has_pixels(const Part& part) {
  if (part.known) return !part.known->floats;
  static const std::set<std::string> kPixels{"mnist", "cifar10", "cifar100", "images", "digits"};
  return kPixels.contains(part.config.type);
}

/// Whether all values fit pixels from 0 to 1, and none is `neutral`, the default.
bool are_of_unit_range(const std::vector<double>& values, double neutral) {
  return !values.empty() &&
         std::ranges::all_of(values, [&](double v) { return v > 0 && v <= 1 && v != neutral; });
}

void mean_of_unit_range(const RunFacts& facts, SettingWarnings& doubts) {
  for (const Part& part : prepared_parts(facts)) {
    const data::TransformConfig& transform = part.config.transform;
    if (!has_pixels(part) || !are_of_unit_range(transform.mean, 0)) continue;
    const double mean = transform.mean[0];
    doubts.in_job(text("/data/", part.name, "/transform/mean"),
                  text("mean ", short_number(mean), ": pixels run from 0 to 255, did you mean ",
                       short_number(mean * kWhitePixel), "?"));
  }
}

void deviation_of_unit_range(const RunFacts& facts, SettingWarnings& doubts) {
  constexpr double kLeastScale = 0.5;
  for (const Part& part : prepared_parts(facts)) {
    const data::TransformConfig& transform = part.config.transform;
    const std::vector<double>& deviations = transform.std_dev;
    if (!has_pixels(part) || transform.scale < kLeastScale || !are_of_unit_range(deviations, 1))
      continue;
    doubts.in_job(text("/data/", part.name, "/transform/std"),
                  text("std ", short_number(deviations[0]), ": pixels run from 0 to 255, did you ",
                       "mean ", short_number(deviations[0] * kWhitePixel), "?"));
  }
}

/// Warns if pixels are scaled to 0 to 1, and then divided by a standard deviation for pixels from 0
/// to 255.
void pixels_scaled_twice(const RunFacts& facts, SettingWarnings& doubts) {
  constexpr double kLeastRange = 0.05;
  for (const Part& part : prepared_parts(facts)) {
    const data::TransformConfig& transform = part.config.transform;
    const double deviation = transform.std_dev.empty() ? 1 : std::ranges::max(transform.std_dev);
    const double range = kWhitePixel * std::abs(transform.scale) / deviation;
    if (!has_pixels(part) || range >= kLeastRange) continue;
    doubts.in_job(
        text("/data/", part.name, "/transform/scale"),
        text("scale ", short_number(transform.scale), " and std ", short_number(deviation),
             " map pixels of 0 to 255 to a range of ", short_number(range),
             "; expected only one of the two, or a std for pixels of 0 ", "to 1"));
  }
}

/// Warns if the transforms of training and test samples differ in their normalization.
void other_values_in_tests(const RunFacts& facts, SettingWarnings& doubts) {
  const DataConfig& data = facts.job.config.data;
  if (!data.has_test || !data.test.has_transform) return;
  const data::TransformConfig &train = data.train.transform, &test = data.test.transform;
  const char* key = train.mean != test.mean || train.mean_image != test.mean_image ? "mean"
                    : train.std_dev != test.std_dev                                ? "std"
                    : train.scale != test.scale                                    ? "scale"
                                                                                   : nullptr;
  if (key == nullptr) return;
  doubts.in_job(
      text("/data/test/transform/", key),
      text("differs from the training set's \"", key, "\": the network is tested on values ",
           "unlike those that it is trained on; expected the same"));
}

bool same_place(const data::DatasetConfig& one, const data::DatasetConfig& other) {
  if (one.type != other.type || one.pairs != other.pairs) return false;
  if (one.path != other.path) return false;
  const bool split = one.type == "mnist" || one.type.starts_with("cifar") || one.type == "digits";
  if (split && one.split != other.split) return false;
  const bool generated = one.type == "digits" || one.type == "random";
  return !generated || (one.seed == other.seed && one.samples == other.samples);
}

void tests_on_training_set(const RunFacts& facts, SettingWarnings& doubts) {
  const DataConfig& data = facts.job.config.data;
  if (!data.has_test) return;
  const bool known = facts.data.train && facts.data.test;
  const bool equal = known ? facts.data.train->fingerprint == facts.data.test->fingerprint
                           : same_place(data.train, data.test);
  if (equal)
    doubts.in_job("/data/test",
                  "holds the samples of the training set, so its accuracy does not measure "
                  "generalization; expected other samples");
}

void batch_beyond_training_set(const RunFacts& facts, SettingWarnings& doubts) {
  const int64_t samples = facts.samples(), batch = facts.job.config.global_batch();
  if (samples == 0 || batch <= samples) return;
  const double epochs = static_cast<double>(batch) / static_cast<double>(samples);
  doubts.in_job(text("/data/", std::string(facts.job.config.batch_key()).substr(5)),
                text("a batch of ", batch, " holds each of the ", counted(samples, "sample"),
                     " of the training set several times: 1 step is ", short_number(epochs),
                     " epochs; expected at most ", samples));
}

// ---- the network

/// By layer of a network: indices of the layers that read its output.
using Readers = std::vector<std::vector<int>>;

Readers readers_of(const Network& network) {
  Readers readers(network.nodes().size());
  for (size_t i = 0; i < network.nodes().size(); ++i)
    for (const int input : network.nodes()[i].inputs)
      if (input >= 0) readers[static_cast<size_t>(input)].push_back(static_cast<int>(i));
  return readers;
}

bool has_weights(const Node& node) {
  return std::ranges::any_of(node.definition->parameters(),
                             [](const auto& spec) { return spec.name == "weight"; });
}

bool begins_at_zero(const Node& node) {
  return std::ranges::any_of(node.parameters(), [](const layers::ParameterSpec& spec) {
    return spec.name == "weight" && spec.filler.type == layers::FillerType::kConstant &&
           spec.filler.value == 0;
  });
}

/// Whether a layer with weights reads the output of layer `index`, directly or through layers with
/// a single input.
bool feeds_weights(const Network& network, const Readers& readers, size_t index) {
  std::vector<int> waiting = readers[index];
  while (!waiting.empty()) {
    const auto at = static_cast<size_t>(waiting.back());
    waiting.pop_back();
    const Node& node = network.nodes()[at];
    if (node.inputs.size() > 1 || !node.reaches_loss) continue;
    if (has_weights(node)) return true;
    waiting.insert(waiting.end(), readers[at].begin(), readers[at].end());
  }
  return false;
}

void weights_of_zeros(const RunFacts& facts, SettingWarnings& doubts) {
  if (facts.has_weights || facts.resumed) return;
  const std::vector<std::string> names = layers_of_zeros(*facts.job.network);
  if (names.empty()) return;
  doubts.in_network(text("/layers: all weights of ", name_list(names),
                         " are initially 0, so all outputs of such a layer are equal and stay "
                         "equal; expected a \"weight_filler\" such as xavier or he"));
}

void batch_norm_of_one_value(const RunFacts& facts, SettingWarnings& doubts) {
  const JobConfig& config = facts.job.config;
  for (const Node& node : facts.job.network->nodes()) {
    const auto* norm = dynamic_cast<const layers::BatchNorm*>(node.definition.get());
    if (norm == nullptr || norm->input.count() != norm->input.channels()) continue;
    doubts.in_network(text(
        layer_text(node), " normalizes 1 value per channel in a shard of 1 sample (a ", "batch of ",
        config.global_batch(), " in ", counted(config.logical_shards(), "logical shard"),
        "), so its output does not depend on its input: layers before it cannot "
        "learn; expected a larger ",
        config.batch_key(), " or fewer cluster.logical_shards"));
  }
}

void softmax_twice(const RunFacts& facts, SettingWarnings& doubts) {
  for (const Node& node : facts.job.network->nodes()) {
    if (node.inputs.empty() || node.inputs[0] < 0) continue;
    const Node& before = facts.job.network->nodes()[static_cast<size_t>(node.inputs[0])];
    const std::string_view loss = node.definition->type(), type = before.definition->type();
    const bool twice = (loss == "softmax_loss" && type == "softmax") ||
                       (loss == "sigmoid_loss" && type == "sigmoid");
    if (twice)
      doubts.in_network(text(layer_text(node), " reads ", layer_text(before), ": ", loss,
                             " itself computes ", type, ", and computing it twice slows learning; ",
                             "expected the input of ", layer_text(before)));
  }
}

std::set<std::string> read_layers(const Network& network) {
  std::set<std::string> names;
  for (const Node& node : network.nodes())
    for (const int input : node.inputs)
      if (input >= 0) names.insert(net::source_name(network, input));
  return names;
}

void outputs_that_no_layer_reads(const RunFacts& facts, SettingWarnings& doubts) {
  const Network& network = *facts.job.network;
  std::set<std::string> read = read_layers(network);
  read.merge(read_layers(network.in_test()));
  std::vector<std::string> names;
  for (const Node& node : network.nodes())
    if (node.definition->scalars().empty() && node.definition->type() != "silence" &&
        !read.contains(node.definition->name))
      names.push_back(node.definition->name);
  if (names.empty()) return;
  doubts.in_network(text("/layers: no layer reads the output of ", name_list(names),
                         ", though each step computes it; remove the layer, or set \"phase\": "
                         "\"test\" if it is an output of the network"));
}

void accuracy_that_is_always_one(const RunFacts& facts, SettingWarnings& doubts) {
  std::set<std::string> told;
  const Network& trained = *facts.job.network;
  for (const Network* network : {&trained, &trained.in_test()})
    for (const Node& node : network->nodes()) {
      const auto* accuracy = dynamic_cast<const layers::Accuracy*>(node.definition.get());
      if (accuracy == nullptr || !told.insert(accuracy->name).second) continue;
      const int64_t most = std::ranges::max(accuracy->top_k);
      if (most >= accuracy->classes)
        doubts.in_network(text(layer_text(node), " reports the top ", most, " of ",
                               accuracy->classes, " classes, which is always 100 %; ",
                               "expected a smaller \"top_k\""));
    }
}

void dropout_of_nearly_all(const RunFacts& facts, SettingWarnings& doubts) {
  constexpr double kMost = 0.9;
  for (const Node& node : facts.job.network->nodes()) {
    const auto* dropout = dynamic_cast<const layers::Dropout*>(node.definition.get());
    if (dropout != nullptr && dropout->probability > kMost)
      doubts.in_network(text(layer_text(node), " drops ", short_number(100 * dropout->probability),
                             " % of its input; a probability of 0.5 is usual"));
  }
}

// ---- steps and learning rates

void rate_of_zero(const RunFacts& facts, SettingWarnings& doubts) {
  if (facts.job.config.optimizer.learning_rate == 0)
    return doubts.in_job("/optimizer/learning_rate", "is 0: nothing is learned");
  const auto learns = [](const Node& node) {
    return std::ranges::any_of(node.parameters(), [](const layers::ParameterSpec& spec) {
      return spec.learning_rate_multiplier > 0;
    });
  };
  if (facts.job.network->parameter_count() > 0 &&
      std::ranges::none_of(facts.job.network->nodes(), learns))
    doubts.in_network("/layers: all \"learning_rate_multipliers\" are 0: nothing is learned");
}

/// Length of the job in the schedule's unit; 0 if unknown.
double length_in_unit(const RunFacts& facts) {
  const JobConfig& config = facts.job.config;
  const bool epochs = config.optimizer.schedule.unit == ScheduleConfig::Unit::kEpochs;
  if (!epochs) return static_cast<double>(facts.steps());
  if (config.train.epochs > 0) return config.train.epochs;
  if (facts.samples() == 0) return 0;
  return static_cast<double>(config.train.steps * config.global_batch()) /
         static_cast<double>(facts.samples());
}

void schedule_beyond_the_end(const RunFacts& facts, SettingWarnings& doubts) {
  const ScheduleConfig& schedule = facts.job.config.optimizer.schedule;
  const double length = length_in_unit(facts);
  if (length <= 0) return;
  const char* unit = schedule.unit == ScheduleConfig::Unit::kEpochs ? " epochs" : " steps";
  const std::string ends = text("the job ends after ", short_number(length), unit);
  if (schedule.warmup > length)
    doubts.in_job("/optimizer/schedule/warmup",
                  text("a warm-up of ", short_number(schedule.warmup), unit, ", but ", ends,
                       ": the full learning rate is never reached"));
  if (schedule.type == "step" && schedule.size >= length)
    doubts.in_job("/optimizer/schedule/step_size", text(short_number(schedule.size), unit, ", but ",
                                                        ends, ": the learning rate never falls"));
  if (schedule.type != "multistep") return;
  const auto late =
      std::ranges::find_if(schedule.milestones, [&](double m) { return m >= length; });
  if (late != schedule.milestones.end())
    doubts.in_job("/optimizer/schedule/milestones",
                  text(short_number(*late), " is never reached: ", ends));
}

void intervals_beyond_the_end(const RunFacts& facts, SettingWarnings& doubts) {
  const TrainConfig& train = facts.job.config.train;
  const int64_t steps = facts.steps();
  const std::string only = steps == 0 ? "" : text("the job ends after step ", steps, ": ");
  if (steps > 0 && train.checkpoint_every > steps)
    doubts.in_job("/train/checkpoint_every", text("is ", train.checkpoint_every, ", but ", only,
                                                  "the only checkpoint is that of the end"));
  if (steps > 0 && train.test_every > steps && facts.job.config.data.has_test)
    doubts.in_job("/train/test_every", text("is ", train.test_every, ", but ", only,
                                            "the only test is that of the end"));
  if (train.test_every > 0 && !facts.job.config.data.has_test)
    doubts.in_job("/train/test_every",
                  text("is ", train.test_every, ", but there is no test set: expected data.test"));
}

/// Warns if the learning rate of a resumed job is more than kMost times that of the checkpoint.
/// Possible causes: another schedule, or another number of steps, on which the schedule depends.
void rate_that_jumps(const RunFacts& facts, SettingWarnings& doubts) {
  constexpr double kMost = 2;
  const int64_t steps = facts.steps();
  if (!facts.resumed || steps == 0 || facts.resumed->step >= steps) return;
  const JobConfig& config = facts.job.config;
  const double epoch =
      static_cast<double>(facts.samples()) / static_cast<double>(config.global_batch());
  const Schedule schedule(config.optimizer.schedule, config.optimizer.learning_rate, steps,
                          std::max(epoch, 1e-9), facts.job.file);
  const double before = facts.resumed->learning_rate;
  const double now = schedule.learning_rate(facts.resumed->step);
  if (now <= kMost * before) return;
  doubts.in_job(
      "/optimizer",
      text("the learning rate jumps from ", short_number(before), " to ", short_number(now),
           " at step ", facts.resumed->step + 1, " of ", steps,
           ", because the job or its schedule was changed since the checkpoint; a smaller "
           "optimizer.learning_rate avoids it"));
}

using Rule = void (*)(const RunFacts&, SettingWarnings&);
constexpr Rule kRules[] = {
    mean_of_unit_range,
    deviation_of_unit_range,
    pixels_scaled_twice,
    other_values_in_tests,
    tests_on_training_set,
    batch_beyond_training_set,
    weights_of_zeros,
    batch_norm_of_one_value,
    softmax_twice,
    outputs_that_no_layer_reads,
    accuracy_that_is_always_one,
    dropout_of_nearly_all,
    rate_of_zero,
    schedule_beyond_the_end,
    intervals_beyond_the_end,
    rate_that_jumps,
};

}  // namespace

int64_t RunFacts::steps() const {
  if (job.config.train.steps > 0) return job.config.train.steps;
  if (samples() == 0) return 0;
  return steps_of(job.config.train, job.config.global_batch(), samples());
}

std::vector<std::string> layers_of_zeros(const Network& network) {
  const Readers readers = readers_of(network);
  std::vector<std::string> names;
  for (size_t i = 0; i < network.nodes().size(); ++i) {
    const Node& node = network.nodes()[i];
    if (node.reaches_loss && begins_at_zero(node) && feeds_weights(network, readers, i))
      names.push_back(node.definition->name);
  }
  return names;
}

std::vector<std::string> doubtful_settings(const RunFacts& facts) {
  SettingWarnings doubts(facts.job);
  for (const Rule rule : kRules) rule(facts, doubts);
  return doubts.take();
}

void warn_of_doubtful_settings(const RunFacts& facts, Log& log) {
  for (const std::string& doubt : doubtful_settings(facts)) log.warning(doubt);
}

}  // namespace poseidon::trainer
