#pragma once

#include <filesystem>

namespace poseidon::importer {

/// Throws ConfigError if `folder` exists and is not an empty folder.
void refuse_used_folder(const std::filesystem::path& folder);

/// Creates the folder of an import and removes the files of an earlier import from it.
void begin_folder(const std::filesystem::path& folder);

}  // namespace poseidon::importer
