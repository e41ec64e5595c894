#include "data/record_format.h"

#include <cstring>

#include "core/digest.h"
#include "core/file.h"
#include "core/json.h"

namespace poseidon::data {

namespace {

constexpr char kMagic[] = "PSDNRECS";
constexpr int64_t kPlainVersion = 1, kVersionOfExtras = 2;
constexpr double kMaxCount = 1e15;

template <class Number>
void put(std::span<std::byte> bytes, size_t at, Number value) {
  for (size_t i = 0; i < sizeof(Number); ++i)
    bytes[at + i] = static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i));
}

template <class Number>
Number get(std::span<const std::byte> bytes, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(Number); ++i)
    value |= std::to_integer<uint64_t>(bytes[at + i]) << (8 * i);
  return static_cast<Number>(value);
}

void describe_shard(Fields& fields, ManifestShard& shard) {
  fields.text("file", shard.file, "file name", Presence::kRequired);
  fields.integer("records", shard.records, between(0, kMaxCount), "records", Presence::kRequired);
  fields.integer("bytes", shard.bytes, between(0, kMaxCount), "bytes", Presence::kRequired);
  fields.integer("checksum", shard.checksum, between(0, UINT32_MAX), "CRC-32C of the header",
                 Presence::kRequired);
}

int64_t version_of(bool has_extras) { return has_extras ? kVersionOfExtras : kPlainVersion; }

/// Describes the keys of a manifest. A read takes `version` from the file. A write derives it from
/// the auxiliary inputs. Only version 2 has the key "extras".
void describe_manifest(Fields& fields, Manifest& manifest) {
  int format = 0;
  fields.choice("format", format, {"poseidon-records"}, "name of the file format",
                Presence::kRequired);
  int64_t version = version_of(!manifest.extras.empty());
  fields.integer("version", version, between(kPlainVersion, kVersionOfExtras), "format version",
                 Presence::kRequired);
  fields.integer("samples", manifest.samples, between(1, kMaxCount), "records of all shards",
                 Presence::kRequired);
  fields.texts("classes", manifest.classes, "names of the classes", Presence::kRequired);
  fields.integers("shape", manifest.shape, between(1, 1 << 30), "shape of all records",
                  Presence::kRequired);
  if (version == kVersionOfExtras)
    describe_auxiliary_inputs(fields, "extras", manifest.extras, "float tensors of each record");
  fields.objects(
      "shards", manifest.shards.size(), [&](size_t count) { manifest.shards.resize(count); },
      [&](Fields& inner, size_t i) { describe_shard(inner, manifest.shards[i]); }, "shard files",
      Presence::kRequired);
}

uint32_t crc_of(const Json& json) {
  return crc32c(as_bytes(json.dump(-1, ' ', false, Json::error_handler_t::replace)));
}

void check_manifest(const Manifest& manifest, const std::string& name) {
  if (manifest.shape.size() != 0 && manifest.shape.size() != 3)
    throw RunError(text(name, ": /shape: expected 0 or 3 numbers, got ", manifest.shape.size()));
  if (const AuxiliaryInputError fault = first_error_in(manifest.extras))
    throw RunError(text(name, ": /extras", fault.pointer, ": ", fault.message));
  int64_t samples = 0;
  for (size_t i = 0; i < manifest.shards.size(); ++i) {
    const ManifestShard& shard = manifest.shards[i];
    samples += shard.records;
    if (shard.file.empty() || shard.file[0] == '.' || shard.file.find('/') != std::string::npos)
      throw RunError(text(name, ": /shards/", i, "/file: expected a plain file name, got \"",
                          shard.file, "\""));
  }
  if (samples != manifest.samples)
    throw RunError(text(name, ": /samples: expected ", samples, ", the records of all shards, got ",
                        manifest.samples));
}

}  // namespace

std::vector<std::byte> encode(const ShardHeader& header) {
  std::vector<std::byte> bytes(kShardHeaderBytes);
  std::memcpy(bytes.data(), kMagic, 8);
  put<uint32_t>(bytes, 8, static_cast<uint32_t>(version_of(header.extra_bytes > 0)));
  put(bytes, 12, header.shard);
  put(bytes, 16, header.records);
  put(bytes, 24, header.index_offset);
  put(bytes, 32, header.file_bytes);
  put(bytes, 40, header.index_crc);
  put(bytes, 44, header.extra_bytes);
  put(bytes, 60, crc32c(std::span(bytes).first(60)));
  return bytes;
}

uint32_t header_crc(const ShardHeader& header) { return get<uint32_t>(encode(header), 60); }

ShardHeader decode_header(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() < kShardHeaderBytes)
    throw RunError(
        text(name, ": expected a header of ", kShardHeaderBytes, " bytes, got ", bytes.size()));
  if (std::memcmp(bytes.data(), kMagic, 8) != 0)
    throw RunError(text(name, ": byte 0: expected \"", kMagic,
                        "\", got other bytes: not a shard of a record set"));
  const auto version = get<uint32_t>(bytes, 8);
  if (version != kPlainVersion && version != kVersionOfExtras)
    throw RunError(text(name, ": byte 8: expected version ", kPlainVersion, " or ",
                        kVersionOfExtras, ", got ", version));
  if (get<uint32_t>(bytes, 60) != crc32c(bytes.first(60)))
    throw RunError(text(name, ": byte 60: the header's checksum does not match"));
  ShardHeader header;
  header.shard = get<uint32_t>(bytes, 12);
  header.records = get<uint64_t>(bytes, 16);
  header.index_offset = get<uint64_t>(bytes, 24);
  header.file_bytes = get<uint64_t>(bytes, 32);
  header.index_crc = get<uint32_t>(bytes, 40);
  if (version == kPlainVersion) return header;
  header.extra_bytes = get<uint32_t>(bytes, 44);
  if (header.extra_bytes == 0 || header.extra_bytes % sizeof(float) != 0)
    throw RunError(text(name,
                        ": byte 44: expected extras as floats of 4 bytes in each record, got ",
                        header.extra_bytes, " bytes"));
  return header;
}

void append(const RecordEntry& entry, std::vector<std::byte>& out) {
  out.resize(out.size() + kIndexEntryBytes);
  const std::span<std::byte> bytes = std::span(out).last(kIndexEntryBytes);
  put(bytes, 0, entry.offset);
  put(bytes, 8, entry.payload_bytes);
  put(bytes, 12, entry.crc);
  put(bytes, 16, entry.label);
  put(bytes, 20, entry.name_bytes);
  put(bytes, 22, static_cast<uint8_t>(entry.form));
  put(bytes, 23, entry.channels);
  put(bytes, 24, entry.height);
  put(bytes, 28, entry.width);
}

RecordEntry decode_entry(std::span<const std::byte> bytes) {
  RecordEntry entry;
  entry.offset = get<uint64_t>(bytes, 0);
  entry.payload_bytes = get<uint32_t>(bytes, 8);
  entry.crc = get<uint32_t>(bytes, 12);
  entry.label = get<uint32_t>(bytes, 16);
  entry.name_bytes = get<uint16_t>(bytes, 20);
  entry.form = static_cast<SampleForm>(get<uint8_t>(bytes, 22));
  entry.channels = get<uint8_t>(bytes, 23);
  entry.height = get<uint32_t>(bytes, 24);
  entry.width = get<uint32_t>(bytes, 28);
  return entry;
}

std::string manifest_text(Manifest manifest) {
  Json json = write_fields([&](Fields& fields) { describe_manifest(fields, manifest); });
  json["checksum"] = crc_of(json);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Manifest parse_manifest(const std::string& json_text, const std::string& name) {
  Manifest manifest;
  try {
    Json json = parse_json(json_text, name);
    int64_t checksum = 0;
    read_fields(json, {name, ""}, [&](Fields& fields) {
      describe_manifest(fields, manifest);
      fields.integer("checksum", checksum, between(0, UINT32_MAX), "CRC-32C of the other keys",
                     Presence::kRequired);
    });
    json.erase("checksum");
    if (checksum != crc_of(json))
      throw RunError(text(name, ": /checksum: expected ", crc_of(json), ", got ", checksum,
                          ": the manifest was altered"));
  } catch (const ConfigError& error) {
    throw RunError(error.what());  // a damaged file is not an error of the configuration
  }
  check_manifest(manifest, name);
  return manifest;
}

}  // namespace poseidon::data
