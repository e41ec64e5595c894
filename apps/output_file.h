#pragma once

#include <filesystem>

#include "core/error.h"

namespace poseidon::apps {

/// Throws ConfigError if the output file exists and `force` is false. Always throws ConfigError if
/// `file` is a folder.
inline void refuse_existing(const std::filesystem::path& file, bool force) {
  if (std::filesystem::is_directory(file))
    throw ConfigError(file.string() + ": is a folder, expected a file to write");
  if (!force && std::filesystem::exists(file))
    throw ConfigError(file.string() +
                      ": exists already; expected a new file, or --force, which "
                      "overwrites it");
}

}  // namespace poseidon::apps
