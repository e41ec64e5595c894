#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "core/log.h"
#include "trainer/job/job.h"
#include "trainer/job/plausibility.h"
#include "trainer/state/checkpoint.h"

/// Opens checkpoints, and checks whether a job can continue from them.
namespace poseidon::trainer {

/// Opens the checkpoint that --resume names; null for an empty path. Throws ConfigError if there is
/// no checkpoint, none is intact, or it belongs to another network.
std::unique_ptr<Checkpoint> resumed_checkpoint(const Job& job, const std::filesystem::path& named,
                                               Log& log);

/// Opens the checkpoint to which a run reverts. `newest` is its weights file, and must not be
/// empty. If that checkpoint is damaged, opens the latest intact one before it in the same folder.
/// Logs a warning and returns null if no checkpoint is intact. It also does this if the opened one
/// belongs to another network, or holds the sums of more than `max_in_flight` steps.
std::unique_ptr<Checkpoint> intact_checkpoint(const Job& job, const std::filesystem::path& newest,
                                              int64_t max_in_flight, Log& log);

/// Throws ConfigError if the checkpoint was made with another global batch. Then the number of used
/// samples is not the steps done times this job's batch. `named` is the user's argument.
void refuse_other_batch(const RunState& state, const Job& job, const std::filesystem::path& named);

/// The progress of a resumed job, for RunFacts::resumed.
ResumedAt resumed_at(const RunState& state);

/// Warns if settings that affect results have changed since the checkpoint, and names them.
void warn_of_changes(const RunState& state, const Job& job, Log& log);

/// Warns if the fingerprint of the training set, `dataset`, differs from that in the checkpoint.
void warn_of_other_data(const RunState& state, const std::string& dataset, Log& log);

}  // namespace poseidon::trainer
