#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trainer/job/run_options.h"
#include "trainer/report/console.h"
#include "trainer/step/engine.h"
#include "trainer/step/evaluation.h"

namespace poseidon::trainer {

/// Name of the layer that the main loss of `network` reads. This layer outputs a row of
/// Network::classes() scores for each sample. The main loss is the classification loss with the
/// largest weight; if several have this weight, the last one. `network` is usually
/// Network::in_test(). Throws ConfigError if the network has no such loss or layer.
std::string score_layer(const net::Network& network);

/// A job's network in phase "test" with trained weights, forward only. Used by --test, --classify
/// and --extract.
class TrainedNet {
 public:
  /// Loads the weights of the checkpoint `options.resume` or of the file `options.weights`. Loads
  /// their EMA instead if the job uses EMA and the file has it. The outputs of the layers in `keep`
  /// can be read (Net::output). Throws ConfigError if neither option is set, or if no weights fit.
  TrainedNet(const Job& job, const RunOptions& options, const std::vector<std::string>& keep,
             Log& log);

  net::Net& net() { return engine_.net(); }
  const std::filesystem::path& weights() const { return weights_; }
  std::optional<int64_t> step() const { return step_; }  ///< null for a weights file

 private:
  Engine engine_;
  std::filesystem::path weights_;
  std::optional<int64_t> step_;
};

/// Options of a pass over the job's test set. RunOptions::stop stops the pass, and the console
/// shows its progress. `tested`: TestOptions::tested.
TestOptions test_options(const Job& job, const RunOptions& options, Console& console,
                         std::function<void(const data::Batch&)> tested);

/// Class names of the run that `options` names. If the run has none, those of the job's training
/// set, or else of its test set. Empty if these have none or cannot be opened.
std::vector<std::string> class_names(const Job& job, const RunOptions& options);

/// The name of a label, such as "cat"; "class 7" if label 7 has no name.
std::string class_name(const std::vector<std::string>& names, size_t label);

}  // namespace poseidon::trainer
