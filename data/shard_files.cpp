#include "data/shard_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace poseidon::data {

namespace {

constexpr size_t kNoShard = ~size_t{0};

/// Returns 1/16 of the process's limit on open files, from 1 to 256. The process also needs files
/// for connections, checkpoints and other record sets.
size_t default_most_open() {
  constexpr rlim_t kMax = 256, kPartOfLimit = 16;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
  return static_cast<size_t>(std::clamp<rlim_t>(limit.rlim_cur / kPartOfLimit, 1, kMax));
}

}  // namespace

ShardFiles::ShardFiles(std::vector<std::filesystem::path> paths, size_t max_open_files)
    : paths_(std::move(paths)),
      files_(paths_.size()),
      open_(max_open_files > 0 ? max_open_files : default_most_open(), kNoShard) {}

ShardFiles::File ShardFiles::open(size_t shard) const {
  {
    MutexLock lock(mutex_);
    if (files_.at(shard) != nullptr) return files_[shard];
  }
  auto file = std::make_shared<const Descriptor>(open_file(paths_.at(shard)));
  MutexLock lock(mutex_);
  if (files_[shard] != nullptr) return files_[shard];  // another thread opened the file meanwhile
  files_[shard] = file;
  const size_t oldest = std::exchange(open_[next_], shard);
  if (oldest != kNoShard) files_[oldest] = nullptr;
  next_ = (next_ + 1) % open_.size();
  return file;
}

void ShardFiles::close(size_t shard) const {
  MutexLock lock(mutex_);
  files_[shard] = nullptr;
  std::ranges::replace(open_, shard, kNoShard);
}

uint64_t ShardFiles::bytes(size_t shard) const {
  return file_bytes(*open(shard), paths_.at(shard));
}

void ShardFiles::read(size_t shard, uint64_t offset, std::span<std::byte> out) const {
  try {
    return read_at(*open(shard), offset, out, paths_.at(shard));
  } catch (const OutOfFiles&) {
    throw;
  } catch (const RunError&) {
    close(shard);
  }
  read_at(*open(shard), offset, out, paths_.at(shard));
}

}  // namespace poseidon::data
