#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/auxiliary_input.h"
#include "core/fields.h"
#include "data/sample.h"

// The byte format of a record set; see docs/record-format.md. Records with auxiliary inputs have
// format version 2, other records version 1.

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
  uint32_t extra_bytes = 0;  ///< size of the auxiliary inputs in each record; 0: version 1
};

/// An entry of the index of a shard: position and form of one record. `crc` covers the record's
/// name, payload and auxiliary inputs.
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
/// Returns the checksum that `encode` writes at the end of the header.
uint32_t header_crc(const ShardHeader& header);
/// Decodes a header. Throws RunError whose message begins with `name` if the header is truncated or
/// invalid, or its checksum is wrong.
ShardHeader decode_header(std::span<const std::byte> bytes, const std::string& name);

void append(const RecordEntry& entry, std::vector<std::byte>& out);
/// Decodes an entry of kIndexEntryBytes bytes. Accepts any bytes; `form` may be an unknown value.
RecordEntry decode_entry(std::span<const std::byte> bytes);

/// A shard as the manifest lists it. `checksum` is the CRC-32C of the shard's header.
struct ManifestShard {
  std::string file;
  int64_t records = 0, bytes = 0, checksum = 0;
};

struct Manifest {
  int64_t samples = 0;
  std::vector<std::string> classes;
  std::vector<int64_t> shape;  ///< channels, height, width of all samples; empty: they differ
  std::vector<AuxiliaryInput> extras;  ///< auxiliary inputs of each record; empty: version 1
  std::vector<ManifestShard> shards;
};

/// Returns the size in bytes of the auxiliary inputs of a record.
inline uint32_t bytes_of(const std::vector<AuxiliaryInput>& extras) {
  return static_cast<uint32_t>(count_of(extras) * static_cast<int64_t>(sizeof(float)));
}

/// Returns the manifest as text, with its checksum.
std::string manifest_text(Manifest manifest);
/// Throws RunError whose message begins with `name` if the text is not a valid manifest or its
/// checksum is wrong.
Manifest parse_manifest(const std::string& json_text, const std::string& name);

}  // namespace poseidon::data
