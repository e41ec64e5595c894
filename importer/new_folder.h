#pragma once

#include <filesystem>

namespace poseidon::importer {

/// Throws ConfigError where there is something that an import could overwrite.
void refuse_used_folder(const std::filesystem::path& folder);

}  // namespace poseidon::importer
