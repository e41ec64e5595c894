#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "core/log.h"
#include "trainer/job/job.h"
#include "trainer/job/plausibility.h"
#include "trainer/state/checkpoint.h"

/// Whether a job goes on with what a checkpoint holds.
namespace poseidon::trainer {

/// The checkpoint that "--resume" names, opened; null for an empty path. Throws ConfigError when
/// there is none, none is whole, or it is that of another network.
std::unique_ptr<Checkpoint> resumed_checkpoint(const Job& job, const std::filesystem::path& named,
                                               Log& log);

/// The checkpoint whose weights file is `newest`, for a run that goes back to it; if it is damaged,
/// the latest earlier one of its folder that is intact. Null, with a warning, where there is none,
/// or where that one carries the sums of more than `most_in_flight` steps.
std::unique_ptr<Checkpoint> intact_checkpoint(const Job& job, const std::filesystem::path& newest,
                                              int64_t most_in_flight, Log& log);

/// Throws ConfigError when the samples used so far are not those of whole steps of this job;
/// `named` is what the user gave.
void refuse_other_batch(const RunState& state, const Job& job, const std::filesystem::path& named);

/// For what is doubtful of a job that goes on.
ResumedAt resumed_at(const RunState& state);

/// Tells of what was changed in the job since the checkpoint and changes results.
void warn_of_changes(const RunState& state, const Job& job, Log& log);

/// Tells when the training set is another one, by its fingerprint.
void warn_of_other_data(const RunState& state, const std::string& dataset, Log& log);

}  // namespace poseidon::trainer
