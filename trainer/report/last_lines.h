#pragma once

#include <cstdint>
#include <filesystem>

namespace poseidon::trainer {

/// The last steps with a training or test line in a run directory's metrics.jsonl; 0: none.
struct LastLines {
  int64_t trained = 0, tested = 0;
};
LastLines last_lines(const std::filesystem::path& run);

}  // namespace poseidon::trainer
