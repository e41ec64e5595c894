#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/log.h"
#include "trainer/job/known_data.h"

/// Settings that every check accepts, but with which nothing is learned, or which hardly anybody
/// intends. They are warned of and never refused.
namespace poseidon::trainer {

/// Where a resumed run stands.
struct ResumedAt {
  int64_t step = 0;          ///< steps done
  double learning_rate = 0;  ///< that the run would have used next
};

/// What the rules look at.
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

/// The same as warnings. Once in a run, by the process that the user has started.
void warn_of_doubtful_settings(const RunFacts& facts, Log& log);

/// Names of layers whose weights all begin at 0 and through which later layers with weights learn:
/// all their outputs are equal and stay so.
std::vector<std::string> layers_of_zeros(const net::Network& network);

}  // namespace poseidon::trainer
