#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace poseidon::trainer {

/// Options of a run that are not part of its job.
struct RunOptions {
  /// Run directory; empty: that of the resumed run, or a new one.
  std::filesystem::path output = {};
  std::filesystem::path resume = {};   ///< a run directory or a checkpoint; empty: from the start
  std::filesystem::path weights = {};  ///< safetensors file; empty: random initial values
  bool replan = false;                 ///< make a new plan and ignore the checkpoint's choices
  std::optional<int64_t> max_steps = std::nullopt;  ///< stop after this step of the job
  bool trace = false;                               ///< write trace.json
  /// Once true, the run ends after the current step. May be null.
  const std::atomic<bool>* stop = nullptr;
  std::string command = {};  ///< the command line, for console.log
  /// The further arguments of the command "poseidon-train --resume RUN" that continues the run,
  /// quoted for a shell: "", or " --external --listen ...".
  std::string resume_flags = {};
};

}  // namespace poseidon::trainer
