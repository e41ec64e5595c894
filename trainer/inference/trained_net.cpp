#include "trainer/inference/trained_net.h"

#include <set>
#include <utility>

#include "core/error.h"
#include "core/fields.h"
#include "trainer/job/choices.h"
#include "trainer/report/run_classes.h"
#include "trainer/report/test_progress.h"
#include "trainer/state/resume.h"
#include "trainer/state/run_tensors.h"
#include "trainer/step/ema.h"

namespace poseidon::trainer {

namespace fs = std::filesystem;

namespace {

/// Class names of the dataset; empty if the dataset cannot be opened.
std::vector<std::string> classes_of_data(const data::DatasetConfig& config) {
  try {
    if (!config.path.empty() && !fs::exists(config.path)) return {};
    return data::open_dataset(config)->classes();
  } catch (const std::runtime_error&) {
    return {};  // without names, labels identify the classes
  }
}

/// Removes from `match.unused` the tensors of layers that exist only in training.
MatchReport match_of_tests(MatchReport match, const net::Network& network) {
  std::set<std::string> trained;
  for (const net::Node& node : network.nodes()) {
    const std::string& layer = node.definition->name;
    for (const auto& spec : node.parameters()) trained.insert(layer + "." + spec.name);
    for (const auto& spec : node.definition->statistics()) trained.insert(layer + "." + spec.name);
  }
  std::erase_if(match.unused, [&](const std::string& name) {
    return trained.contains(name) || trained.contains(Ema::followed(name));
  });
  return match;
}

}  // namespace

std::string score_layer(const net::Network& network) {
  if (network.classes() == 0)
    throw ConfigError("network \"" + network.name() +
                      "\": expected a classification loss, such as softmax_loss");
  const net::Node* main = nullptr;
  for (const net::Node& node : network.nodes())
    if (node.definition->is_loss_of_classes() &&
        (main == nullptr || node.definition->loss_weight() >= main->definition->loss_weight()))
      main = &node;
  if (main == nullptr || main->inputs[0] < 0)
    throw ConfigError("network \"" + network.name() + "\": expected a layer before its loss");
  return network.nodes()[static_cast<size_t>(main->inputs[0])].definition->name;
}

TrainedNet::TrainedNet(const Job& job, const RunOptions& options,
                       const std::vector<std::string>& keep, Log& log)
    : engine_(job, {.training = false, .choices = choices_of(job), .keep = keep}, log),
      weights_(options.weights) {
  if (options.resume.empty() && options.weights.empty())
    throw ConfigError("weights are missing: add --resume RUN_DIR|FILE or --weights FILE");
  bool averaged = job.config.optimizer.average_decay > 0;
  if (const auto checkpoint = resumed_checkpoint(job, options.resume, log)) {
    const RunState& state = checkpoint->state();
    weights_ = checkpoint->weights_file();
    step_ = state.step;
    averaged = averaged && state.step > state.in_flight;  // no EMA before the first update
  }
  net().values().initialize(static_cast<uint64_t>(job.config.train.seed));
  report_match(weights_,
               match_of_tests(load_weights(weights_, weights_of(net()),
                                           averaged ? WeightsTaken::kAverages : WeightsTaken::kOwn),
                              *job.network),
               log);
}

TestOptions test_options(const Job& job, const RunOptions& options, Console& console,
                         std::function<void(const data::Batch&)> tested) {
  return {.seed = static_cast<uint64_t>(job.config.train.seed),
          .loader_threads = static_cast<int>(job.config.data.loader_threads),
          .on_error = job.config.data.test.on_error,
          .goes_on =
              [&options, progress = TestProgress(console, "testing")](int64_t done,
                                                                      int64_t of) mutable {
                progress.at(done, of);
                return !options.stop || !*options.stop;
              },
          .tested = std::move(tested)};
}

std::vector<std::string> class_names(const Job& job, const RunOptions& options) {
  std::vector<std::string> names = classes_of_run(options);
  if (names.empty()) names = classes_of_data(job.config.data.train);
  if (names.empty() && job.config.data.has_test) names = classes_of_data(job.config.data.test);
  return names;
}

std::string class_name(const std::vector<std::string>& names, size_t label) {
  return label < names.size() ? names[label] : "class " + std::to_string(label);
}

}  // namespace poseidon::trainer
