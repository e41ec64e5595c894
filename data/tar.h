#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/read_at.h"

namespace poseidon::data {

enum class TarKind : uint8_t { kFile, kFolder, kLink };

/// A file, a folder, or a link to one of these, in a tar archive.
struct TarEntry {
  std::string name;  ///< as in the archive: may be absolute or contain ".."; never used as a path
  uint64_t offset = 0, bytes = 0;  ///< byte offset of the content in the archive; its size
  TarKind kind = TarKind::kFile;
};

/// Lists the files, folders and links of an archive of `archive_bytes` bytes. Supports ustar, GNU
/// (long names, binary sizes) and pax (path, size). Throws RunError whose message begins with
/// `name` if the archive is truncated or damaged.
std::vector<TarEntry> list_tar(uint64_t archive_bytes, const ReadAt& read, const std::string& name);

}  // namespace poseidon::data
