#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/json.h"

namespace poseidon::trainer {

/// Applies "--set" arguments, each "dotted.path=VALUE", to a job. VALUE is JSON, else a text; null
/// removes the key. Setting one of an exclusive pair (batch_per_worker and global_batch, steps and
/// epochs) removes the other. Where a "type" is set to another value, keys of the file that only
/// the old type has are removed; each is named in the result. Relative paths are taken from
/// `folder`, where the user is. Throws ConfigError for one that cannot be applied.
std::vector<std::string> apply_overrides(Json& job, std::span<const std::string> arguments,
                                         const std::filesystem::path& folder);

/// Throws the error in the name of the argument that set the wrong value. Returns if none of
/// `arguments` set it.
void refuse_override(const PlacedError& error, std::span<const std::string> arguments);

/// The dotted path of the job's key that is nearest to `typed`, which may lack the objects around
/// it: "optimizer.learning_rate" for "lr"; "" where none is near.
std::string nearest_job_path(std::string_view typed);

}  // namespace poseidon::trainer
