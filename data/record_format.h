#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/extras.h"
#include "core/fields.h"
#include "data/sample.h"

// The bytes of a record set, as docs/record-format.md has them: of version 1, or 2 where records
// have extras.

namespace poseidon::data {

inline constexpr char kManifestName[] = "records.json";
inline constexpr size_t kShardHeaderBytes = 64;
inline constexpr size_t kIndexEntryBytes = 32;

struct ShardHeader {
  uint32_t shard = 0;
  uint64_t records = 0;
  uint64_t index_offset = 0;
  uint64_t file_bytes = 0;
  uint32_t index_crc = 0;
  uint32_t extra_bytes = 0;  ///< behind the payload of each record; 0: version 1
};

struct RecordEntry {
  uint64_t offset = 0;
  uint32_t payload_bytes = 0;
  uint32_t crc = 0;
  uint32_t label = 0;
  uint16_t name_bytes = 0;
  SampleForm form = SampleForm::kEncoded;
  uint8_t channels = 0;
  uint32_t height = 0, width = 0;
};

std::vector<std::byte> encode(const ShardHeader& header);
/// The checksum that `encode` puts at the end of the header.
uint32_t header_crc(const ShardHeader& header);
/// Decodes a header. Throws RunError, beginning with `name`, on a wrong magic, version or checksum.
ShardHeader decode_header(std::span<const std::byte> bytes, const std::string& name);

void append(const RecordEntry& entry, std::vector<std::byte>& out);
/// Decodes an entry of kIndexEntryBytes bytes. Any bytes give an entry; the form may be unknown.
RecordEntry decode_entry(std::span<const std::byte> bytes);

struct ManifestShard {
  std::string file;
  int64_t records = 0, bytes = 0, checksum = 0;
};

struct Manifest {
  int64_t samples = 0;
  std::vector<std::string> classes;
  std::vector<int64_t> shape;
  std::vector<Extra> extras;  ///< none: version 1
  std::vector<ManifestShard> shards;
};

/// Bytes of the extras of a record.
inline uint32_t bytes_of(const std::vector<Extra>& extras) {
  return static_cast<uint32_t>(count_of(extras) * static_cast<int64_t>(sizeof(float)));
}

/// The manifest as text, with its checksum.
std::string manifest_text(Manifest manifest);
/// Throws RunError, beginning with `name`, for text that is no manifest or fails its checksum.
Manifest parse_manifest(const std::string& json_text, const std::string& name);

}  // namespace poseidon::data
