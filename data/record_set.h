#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/read_at.h"
#include "data/record_format.h"

namespace poseidon::data {

/// One shard of a record set, checked when it is made. It keeps the index, 32 bytes a record, and
/// reads records from the file.
class RecordShard {
 public:
  /// `read` reads from the file of `file_bytes` bytes, in any thread. Throws RunError, beginning
  /// with `name`, for anything that docs/record-format.md refuses on opening, and what `read`
  /// throws.
  RecordShard(uint64_t file_bytes, ReadAt read, size_t classes, std::string name);

  const ShardHeader& header() const { return header_; }
  uint64_t records() const { return header_.records; }
  RecordEntry entry(uint64_t record) const;
  /// Of its index.
  size_t memory_bytes() const { return index_.size(); }
  /// Reads a record into the sample's storage. Throws CorruptSample when the record cannot be read
  /// any more, or its checksum fails.
  void read(uint64_t record, Sample& sample) const;
  /// "SHARD #RECORD (NAME)"; without NAME where that cannot be read.
  std::string record_name(uint64_t record) const;

 private:
  void check_entry(uint64_t record, size_t classes) const;

  ReadAt read_;
  std::string name_;
  ShardHeader header_;
  std::vector<std::byte> index_;
};

/// Opens the record set in `folder`. Throws ConfigError when there is none, RunError when it is
/// damaged.
std::unique_ptr<Dataset> open_record_set(const std::string& folder);

}  // namespace poseidon::data
