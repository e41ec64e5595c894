#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/json.h"

namespace poseidon::trainer {

/// Applies --set arguments, each "dotted.path=VALUE", to a job. VALUE is JSON or else a string;
/// null removes the key. Setting one key of an exclusive pair (batch_per_worker and global_batch,
/// steps and epochs) removes the other. If a "type" changes, keys of the file that only the old
/// type has are removed. Returns the names of these keys. A file path as VALUE is relative to
/// `folder`, the user's working directory. Throws ConfigError for an argument that cannot be
/// applied.
std::vector<std::string> apply_overrides(Json& job, std::span<const std::string> arguments,
                                         const std::filesystem::path& folder);

/// Throws a ConfigError that names the --set argument that caused `error`. Returns if no argument
/// caused it. Also returns if a flag such as --workers can set the key: `arguments` contains the
/// values of flags too, so the user may not have typed --set.
void refuse_override(const JsonPathError& error, std::span<const std::string> arguments);

/// The dotted path of the job's key nearest to `typed`; "" if no key is similar. `typed` may lack
/// the enclosing objects: "lr" yields "optimizer.learning_rate".
std::string nearest_job_path(std::string_view typed);

}  // namespace poseidon::trainer
