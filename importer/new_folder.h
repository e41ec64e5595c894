#pragma once

#include <filesystem>

namespace poseidon::importer {

/// Throws ConfigError where there is something that an import could overwrite.
void refuse_used_folder(const std::filesystem::path& folder);

/// Makes the folder that an import writes to, and removes the files of an earlier import there.
void begin_folder(const std::filesystem::path& folder);

}  // namespace poseidon::importer
