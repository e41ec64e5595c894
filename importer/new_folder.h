#pragma once

#include <filesystem>

namespace poseidon::importer {

/// Throws ConfigError if `folder` exists and is not an empty folder.
void check_folder_is_empty(const std::filesystem::path& folder);

/// Creates the output folder of an import, or removes the files of an earlier import from it.
/// Throws ConfigError if `folder` is a file.
void prepare_output_folder(const std::filesystem::path& folder);

}  // namespace poseidon::importer
