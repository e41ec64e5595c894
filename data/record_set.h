#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "data/dataset.h"
#include "data/record_format.h"

namespace poseidon::data {

/// One shard of a record set as bytes in memory, checked when it is made. Owns nothing.
class RecordShard {
 public:
  /// Throws RunError, beginning with `name`, for anything that docs/record-format.md refuses on
  /// opening.
  RecordShard(std::span<const std::byte> bytes, size_t classes, std::string name);

  const ShardHeader& header() const { return header_; }
  uint64_t records() const { return header_.records; }
  RecordEntry entry(uint64_t record) const;
  /// Reads a record, whose payload and extras stay in the shard. Throws CorruptSample when the
  /// checksum fails.
  void read(uint64_t record, Sample& sample) const;
  std::string record_name(uint64_t record) const;

 private:
  void check_entry(uint64_t record, size_t classes) const;

  std::span<const std::byte> bytes_;
  std::string name_;
  ShardHeader header_;
};

/// Opens the record set in `folder`. Throws ConfigError when there is none, RunError when it is
/// damaged.
std::unique_ptr<Dataset> open_record_set(const std::string& folder);

}  // namespace poseidon::data
