#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "core/file.h"
#include "data/tar.h"

namespace poseidon::data {

/// A tar archive whose entries can be read in any order. One that is compressed by gzip is unpacked
/// to a temporary file without a name in `work_folder`.
class TarArchive {
 public:
  /// Throws ConfigError when it cannot be opened, RunError when it is damaged.
  TarArchive(std::filesystem::path path, const std::filesystem::path& work_folder);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<TarEntry>& entries() const { return entries_; }
  /// Throws ConfigError for a link.
  void refuse_link(const TarEntry& entry) const;
  /// Throws ConfigError for a link, CorruptSample for more than `most` bytes, RunError
  /// when the archive cannot be read.
  void read(const TarEntry& entry, uint64_t most, std::vector<std::byte>& out) const;

 private:
  std::filesystem::path path_;
  Descriptor file_;
  std::vector<TarEntry> entries_;
};

}  // namespace poseidon::data
