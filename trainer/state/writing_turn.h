#pragma once

#include <chrono>
#include <filesystem>

#include "core/file.h"

namespace poseidon::trainer {

/// One process at a time writes into a folder of checkpoints: a worker that has lost its
/// coordinator cannot know whether that lives. The turn ends with this object, or its process.
class WritingTurn {
 public:
  /// Waits for `period` at most, since who has the turn may be stopped. Throws RunError.
  WritingTurn(const std::filesystem::path& folder, std::chrono::milliseconds period);

 private:
  Descriptor folder_;  ///< locked
};

}  // namespace poseidon::trainer
