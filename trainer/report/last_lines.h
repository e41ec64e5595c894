#pragma once

#include <cstdint>
#include <filesystem>

namespace poseidon::trainer {

/// The last step with a training line, and the last step with a test line, in metrics.jsonl of a
/// run directory; 0: none.
struct LastLines {
  int64_t trained = 0, tested = 0;
};
LastLines last_lines(const std::filesystem::path& run);

}  // namespace poseidon::trainer
