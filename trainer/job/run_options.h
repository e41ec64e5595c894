#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

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
  std::string command = {};                 ///< the command line, for console.log
  /// What a command that continues the run has after "--resume RUN", as a shell reads it: "", or
  /// " --external --listen ...".
  std::string resume_flags = {};
};

}  // namespace poseidon::trainer
