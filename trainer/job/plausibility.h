#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/log.h"
#include "trainer/job/known_data.h"

/// Settings that every check accepts, although they prevent learning or are hardly intended. They
/// cause warnings and are never refused.
namespace poseidon::trainer {

/// Progress of a resumed run.
struct ResumedAt {
  int64_t step = 0;          ///< steps done
  double learning_rate = 0;  ///< that the run would have used next
};

/// Input of the rules.
struct RunFacts {
  const Job& job;
  const KnownData& data;
  bool has_weights = false;  ///< first values come from a file
  std::optional<ResumedAt> resumed = std::nullopt;

  /// Steps of the whole job; 0 where that depends on data that are not there.
  int64_t steps() const;
  /// Of the training set; 0 where it is not there.
  int64_t samples() const { return data.train ? data.train->samples : 0; }
};

/// One sentence for each doubtful setting: "FILE: POINTER: value, consequence; remedy".
std::vector<std::string> doubtful_settings(const RunFacts& facts);

/// Logs the same as warnings. Only the process that the user has started calls it, once in a run.
void warn_of_doubtful_settings(const RunFacts& facts, Log& log);

/// Names of layers whose weights all begin at 0 and through which later layers with weights learn:
/// all their outputs are equal and stay so.
std::vector<std::string> layers_of_zeros(const net::Network& network);

}  // namespace poseidon::trainer
