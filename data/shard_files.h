#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "core/file.h"
#include "core/mutex.h"

namespace poseidon::data {

/// The open shard files of a record set. A set may have more shards than the process may open
/// files, so only a bounded number is open at once. All methods are thread-safe.
///
/// Shards are read, not mapped. If a mapped file becomes shorter or its file server fails, SIGBUS
/// kills the process.
class ShardFiles {
 public:
  /// At most `max_open_files` files are open at once; 0: 1/16 of the process's limit on open files,
  /// from 1 to 256.
  explicit ShardFiles(std::vector<std::filesystem::path> paths, size_t max_open_files = 0);

  const std::filesystem::path& path(size_t shard) const { return paths_.at(shard); }
  /// Returns the size of a shard file. Throws ConfigError or OutOfFiles if it cannot be opened.
  uint64_t bytes(size_t shard) const;
  /// Fills `out` from byte `offset` of a shard file. After a failed read, opens the file again and
  /// retries once. Throws like bytes(), and throws RunError if the retry fails.
  void read(size_t shard, uint64_t offset, std::span<std::byte> out) const;

 private:
  using File = std::shared_ptr<const Descriptor>;  ///< shared: one thread may read from a file that
                                                   ///< another thread closes

  File open(size_t shard) const;
  void close(size_t shard) const;

  const std::vector<std::filesystem::path> paths_;
  mutable Mutex mutex_;
  mutable std::vector<File> files_ GUARDED_BY(mutex_);   ///< by shard; null: closed
  mutable std::vector<size_t> open_ GUARDED_BY(mutex_);  ///< ring of the last opened shards
  mutable size_t next_ GUARDED_BY(mutex_) = 0;  ///< index in the ring of the shard to close next
};

}  // namespace poseidon::data
