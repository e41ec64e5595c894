#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/log.h"
#include "trainer/job/known_data.h"

/// Warnings about settings that are valid, but prevent learning or are probably unintended. They
/// are never errors.
namespace poseidon::trainer {

/// Progress of a resumed run.
struct ResumedAt {
  int64_t step = 0;          ///< steps done
  double learning_rate = 0;  ///< learning rate of the next step according to the checkpoint
};

/// Facts about a run, the input of the rules that find doubtful settings.
struct RunFacts {
  const Job& job;
  const KnownData& data;
  bool has_weights = false;  ///< initial values come from a file
  std::optional<ResumedAt> resumed = std::nullopt;

  /// Steps of the whole job; 0 if they depend on missing data.
  int64_t steps() const;
  /// Samples of the training set; 0 if it is missing.
  int64_t samples() const { return data.train ? data.train->samples : 0; }
};

/// One sentence for each doubtful setting: "FILE: POINTER: value, consequence; remedy".
std::vector<std::string> doubtful_settings(const RunFacts& facts);

/// Logs the doubtful settings as warnings. Only the process that the user has started calls this
/// function, once per run.
void warn_of_doubtful_settings(const RunFacts& facts, Log& log);

/// Names of layers whose initial weights are all 0, if a later layer with weights reads the output,
/// directly or through layers with one input. All outputs of such a layer are equal, and stay
/// equal.
std::vector<std::string> layers_of_zeros(const net::Network& network);

}  // namespace poseidon::trainer
