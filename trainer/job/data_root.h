#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace poseidon::trainer {

/// The folder to which the data of a job are confined where another process has sent the job: its
/// paths are another's word, and name nothing outside of it.
class DataRoot {
 public:
  /// Without a folder no path is resolved: only data sets that are generated can be used.
  DataRoot() = default;
  explicit DataRoot(const std::filesystem::path& folder);

  /// The real file or folder that `path` of a job means: relative, with the folder's own name,
  /// ${POSEIDON_DATA}, in front of it, or absolute and below the folder. Throws ConfigError, which
  /// is the same for what is not there and for what lies outside.
  std::filesystem::path resolve(const std::string& path) const;

 private:
  std::optional<std::filesystem::path> real_path(const std::filesystem::path& path) const;

  std::filesystem::path folder_;
};

}  // namespace poseidon::trainer
