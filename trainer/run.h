#pragma once

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>

#include "core/json.h"
#include "trainer/console.h"
#include "trainer/evaluation.h"
#include "trainer/job.h"

namespace poseidon::trainer {

/// What a run is asked for beside its job.
struct RunOptions {
  std::filesystem::path output = {};   ///< run directory; empty: a new one, or the resumed one
  std::filesystem::path resume = {};   ///< a run directory or a checkpoint; empty: from the start
  std::filesystem::path weights = {};  ///< safetensors to begin with; empty: first values
  bool replan = false;                 ///< do not take the checkpoint's choices
  std::optional<int64_t> max_steps = std::nullopt;  ///< stop after this step of the job
  bool trace = false;                               ///< write trace.json
  const std::atomic<bool>* stop = nullptr;  ///< set from outside: end after the step; may be null
};

/// Trains the job to its end, or until it is stopped: steps, tests, checkpoints, metrics. Returns
/// what it wrote to summary.json. Throws ConfigError before the first step, RunError when the run
/// fails; the last checkpoint then stays as it is.
Json train(const Job& job, const RunOptions& options, Console& console);

/// What a run that was stopped says, and how it goes on.
std::string stopped_text(int64_t step, int64_t steps, const std::filesystem::path& folder);

/// Tests on data.test with the weights of a checkpoint (`options.resume`) or of a file
/// (`options.weights`): loss, accuracy, also by class, and which classes are confused.
Json test(const Job& job, const RunOptions& options, Console& console);

/// Times each layer on random values, the median of `repeats`: {"layers": [...], "forward_ms",
/// "backward_ms", "update_ms"}: as one worker of the job does them.
inline constexpr int kTimingRepeats = 9;
Json time_layers(const Job& job, const net::Choices& choices, int repeats, Log& log);

}  // namespace poseidon::trainer
