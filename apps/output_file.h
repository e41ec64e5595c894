#pragma once

#include <filesystem>

#include "core/error.h"

namespace poseidon::apps {

/// Throws ConfigError if the output file exists and `force` is false. Always throws ConfigError if
/// `file` is a folder or a special file, such as a device.
inline void refuse_existing(const std::filesystem::path& file, bool force) {
  if (std::filesystem::is_directory(file))
    throw ConfigError(file.string() + ": is a folder, expected a file to write");
  const bool exists = std::filesystem::exists(file);
  if (exists && !std::filesystem::is_regular_file(file))
    throw ConfigError(file.string() + ": is a special file, expected a regular file to write");
  if (!force && exists)
    throw ConfigError(file.string() +
                      ": exists already; expected a new file, or --force, which "
                      "overwrites it");
}

}  // namespace poseidon::apps
