#pragma once

#include <cstdint>
#include <filesystem>

#include "core/json.h"
#include "core/log.h"
#include "trainer/job/config.h"
#include "trainer/state/checkpoint.h"

/// Checks before the first step that the disk has room for the files of a run.
namespace poseidon::trainer {

/// Bytes of the two files of a checkpoint (.safetensors, .state), without headers.
struct CheckpointBytes {
  uint64_t weights = 0, state = 0;
};
/// `in_flight`: number of steps whose sums the checkpoint contains.
CheckpointBytes checkpoint_bytes(const RunTensors& tensors, int64_t in_flight);
/// As above, for the tensors in `list`, the result of tensor_list().
CheckpointBytes checkpoint_bytes(const Json& list, int64_t in_flight);

/// Maximum number of checkpoints that exist at one time in addition to the `existing` ones, during
/// `steps` more steps; at least 1. If train.keep_checkpoints is set, this number of newest ones,
/// the best one, and the one being written exist. Otherwise all checkpoints stay.
uint64_t max_new_checkpoints(const TrainConfig& train, int64_t steps, int64_t existing);

/// Throws ConfigError if the disk of folder `run` has no room for one checkpoint. Also throws if
/// the file size limit (ulimit -f) is below the larger file of a checkpoint. Warns if there is no
/// room for all checkpoints of `steps` more steps.
void check_disk_space(const std::filesystem::path& run, const CheckpointBytes& bytes,
                      const TrainConfig& train, int64_t steps, Log& log);

}  // namespace poseidon::trainer
