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

/// The layer that a network's main loss reads, in tests where the network is that of tests: a row
/// of Network::classes() scores for each sample. Of several losses of classes the main one is the
/// heaviest, of equal ones the last. Throws ConfigError where there is none.
std::string score_layer(const net::Network& network);

/// A job's network in phase "test" with trained weights, forward only: what --test, --classify and
/// --extract compute with.
class TrainedNet {
 public:
  /// Weights of the checkpoint `options.resume` or of the file `options.weights`; their averages
  /// where the job keeps them and the file has them. The outputs of the layers in `keep` can be
  /// read (Net::output). Throws ConfigError when neither is given or they do not fit.
  TrainedNet(const Job& job, const RunOptions& options, const std::vector<std::string>& keep,
             Log& log);

  net::Net& net() { return engine_.net(); }
  const std::filesystem::path& weights() const { return weights_; }
  std::optional<int64_t> step() const { return step_; }  ///< of a checkpoint

 private:
  Engine engine_;
  std::filesystem::path weights_;
  std::optional<int64_t> step_;
};

/// What a pass over the job's test set is asked for, which RunOptions::stop ends and whose progress
/// the console shows; `tested` as TestOptions has it.
TestOptions test_options(const Job& job, const RunOptions& options, Console& console,
                         std::function<void(const data::Batch&)> tested);

/// The names of the classes that the run of `options` was trained with, else those of the job's
/// data where they are at hand.
std::vector<std::string> class_names(const Job& job, const RunOptions& options);

/// "cat", or "class 7" for one without a name.
std::string class_name(const std::vector<std::string>& names, size_t label);

}  // namespace poseidon::trainer
