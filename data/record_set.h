#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/read_at.h"
#include "data/record_format.h"

namespace poseidon::data {

/// One shard of a record set. The constructor checks the header and the index. The object keeps the
/// index, 32 bytes per record, in memory. It reads records from the file.
class RecordShard {
 public:
  /// `read` reads from the file of `file_bytes` bytes. It must be thread-safe. `classes` is the
  /// number of classes. Throws RunError whose message begins with `name` if the header or the index
  /// has a defect that docs/record-format.md lists. Does not convert exceptions of `read`.
  RecordShard(uint64_t file_bytes, ReadAt read, size_t classes, std::string name);

  const ShardHeader& header() const { return header_; }
  uint64_t records() const { return header_.records; }
  RecordEntry entry(uint64_t record) const;
  /// Returns the size of the index in bytes.
  size_t memory_bytes() const { return index_.size(); }
  /// Reads a record into the sample's storage. Throws like read_for_sample() if the record cannot
  /// be read, CorruptSample if its checksum is wrong.
  void read(uint64_t record, Sample& sample) const;
  /// Returns "SHARD #RECORD (NAME)"; "SHARD #RECORD" if the name cannot be read.
  std::string record_name(uint64_t record) const;

 private:
  void check_entry(uint64_t record, size_t classes) const;

  ReadAt read_;
  std::string name_;
  ShardHeader header_;
  std::vector<std::byte> index_;
};

/// Opens the record set in `folder`. Throws ConfigError if there is none, RunError if it is
/// damaged.
std::unique_ptr<Dataset> open_record_set(const std::string& folder);

}  // namespace poseidon::data
