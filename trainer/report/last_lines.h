#pragma once

#include <cstdint>
#include <filesystem>

namespace poseidon::trainer {

/// The largest steps with a training line and with a test line in metrics.jsonl of a run directory;
/// 0: none.
struct LastLines {
  int64_t trained = 0, tested = 0;
};
LastLines last_lines(const std::filesystem::path& run);

}  // namespace poseidon::trainer
