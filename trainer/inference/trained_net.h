#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainer/job/run_options.h"
#include "trainer/step/engine.h"

namespace poseidon::trainer {

/// A job's network with trained weights, forward only: what --test and --classify compute with.
class TrainedNet {
 public:
  /// Weights of the checkpoint `options.resume` or of the file `options.weights`. Throws
  /// ConfigError when neither is given or they do not fit.
  TrainedNet(const Job& job, const RunOptions& options, Log& log);

  net::Net& net() { return engine_.net(); }
  const std::filesystem::path& weights() const { return weights_; }
  std::optional<int64_t> step() const { return step_; }  ///< of a checkpoint

  /// What the main loss read in the last forward pass: a row of Network::classes() scores for each
  /// sample of the batch.
  std::vector<float> scores() { return net().output(score_layer_); }

 private:
  std::string score_layer_;
  Engine engine_;
  std::filesystem::path weights_;
  std::optional<int64_t> step_;
};

/// The names of the classes that the run of `options` was trained with; none where it tells of
/// none.
std::vector<std::string> classes_of_run(const RunOptions& options);

/// The same, else those of the job's data where they are at hand.
std::vector<std::string> class_names(const Job& job, const RunOptions& options);

/// "cat", or "class 7" for one without a name.
std::string class_name(const std::vector<std::string>& names, size_t label);

}  // namespace poseidon::trainer
