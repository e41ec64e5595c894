#pragma once

#include <cstdint>
#include <filesystem>

#include "core/json.h"
#include "core/log.h"
#include "trainer/job/config.h"
#include "trainer/state/checkpoint.h"

/// Whether the disk has room for what a run will write, which is known before its first step.
namespace poseidon::trainer {

/// The bytes of the two files of a checkpoint, but for their headers.
struct CheckpointBytes {
  uint64_t weights = 0, state = 0;
};
CheckpointBytes checkpoint_bytes(const RunTensors& tensors, int64_t in_flight);
/// The same by a tensor_list().
CheckpointBytes checkpoint_bytes(const Json& list, int64_t in_flight);

/// How many checkpoints a run of `steps` further steps may have on the disk at once, beside
/// `existing` ones: those that are kept, the best one, and the one that is being written.
uint64_t most_new_checkpoints(const TrainConfig& train, int64_t steps, int64_t existing);

/// Throws ConfigError if the disk of the folder `run` has no room for one checkpoint, or if the
/// limit on the size of a file is below its larger file. Warns if there is no room for all that
/// `steps` further steps may leave.
void check_disk_space(const std::filesystem::path& run, const CheckpointBytes& bytes,
                      const TrainConfig& train, int64_t steps, Log& log);

}  // namespace poseidon::trainer
