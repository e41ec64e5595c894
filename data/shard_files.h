#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "core/file.h"
#include "core/mutex.h"

namespace poseidon::data {

/// The shards of a record set as open files. A set may have more shards than the process may have
/// files, so a bounded number of them is open at once. All calls are thread-safe.
///
/// Shards are read and not mapped: a mapped file that becomes shorter, or whose server is gone,
/// ends the process by SIGBUS.
class ShardFiles {
 public:
  /// `most_open` files at once; 0: a sixteenth of the process's limit, at most 256.
  explicit ShardFiles(std::vector<std::filesystem::path> paths, size_t most_open = 0);

  const std::filesystem::path& path(size_t shard) const { return paths_.at(shard); }
  /// Throws ConfigError or OutOfFiles when the file cannot be opened.
  uint64_t bytes(size_t shard) const;
  /// Fills `out` from `offset`. Throws as bytes() does, and RunError when that cannot be read. A
  /// read that fails is tried once more with the file opened again.
  void read(size_t shard, uint64_t offset, std::span<std::byte> out) const;

 private:
  using File = std::shared_ptr<const Descriptor>;  ///< one thread may read what another one closes

  File open(size_t shard) const;
  void close(size_t shard) const;

  const std::vector<std::filesystem::path> paths_;
  mutable Mutex mutex_;
  mutable std::vector<File> files_ GUARDED_BY(mutex_);   ///< by shard; null where it is closed
  mutable std::vector<size_t> open_ GUARDED_BY(mutex_);  ///< ring of the shards opened last
  mutable size_t next_ GUARDED_BY(mutex_) = 0;           ///< index in the ring
};

}  // namespace poseidon::data
