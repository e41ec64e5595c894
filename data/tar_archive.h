#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "core/file.h"
#include "data/tar.h"

namespace poseidon::data {

/// A tar archive with random access to its entries. A gzip archive is first decompressed into an
/// unnamed temporary file in `work_folder`.
class TarArchive {
 public:
  /// Throws ConfigError if the file cannot be opened or is, for example, a zip archive. Throws
  /// RunError if the archive is damaged, or cannot be decompressed into `work_folder`.
  TarArchive(std::filesystem::path path, const std::filesystem::path& work_folder);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<TarEntry>& entries() const { return entries_; }
  /// Throws ConfigError if the entry is a link.
  void refuse_link(const TarEntry& entry) const;
  /// Reads the content of an entry into `out`. Throws ConfigError if the entry is a link,
  /// CorruptSample if it exceeds `most` bytes, RunError if the archive cannot be read.
  void read(const TarEntry& entry, uint64_t most, std::vector<std::byte>& out) const;

 private:
  std::filesystem::path path_;
  Descriptor file_;
  std::vector<TarEntry> entries_;
};

}  // namespace poseidon::data
