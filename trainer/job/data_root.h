#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace poseidon::trainer {

/// The only folder from which a job may read data if another process has sent the job. The other
/// process is not trusted, so the paths in its job must not lead out of the folder.
class DataRoot {
 public:
  /// Without a folder, resolve() rejects every path, so a job can use only generated datasets.
  DataRoot() = default;
  explicit DataRoot(const std::filesystem::path& folder);

  /// Returns the real file or folder for `path` of a job. `path` may be relative to the folder,
  /// begin with ${POSEIDON_DATA}, or be absolute and below the folder. Throws ConfigError; the
  /// message is the same for a missing path and for a path outside the folder.
  std::filesystem::path resolve(const std::string& path) const;

 private:
  std::optional<std::filesystem::path> real_path(const std::filesystem::path& path) const;

  std::filesystem::path folder_;
};

}  // namespace poseidon::trainer
