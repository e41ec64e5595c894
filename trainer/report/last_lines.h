#pragma once

#include <cstdint>
#include <filesystem>

namespace poseidon::trainer {

/// The last steps that metrics.jsonl of a run directory has lines of; 0: none.
struct LastLines {
  int64_t trained = 0, tested = 0;
};
LastLines last_lines(const std::filesystem::path& run);

}  // namespace poseidon::trainer
