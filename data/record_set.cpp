#include "data/record_set.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "core/digest.h"
#include "core/file.h"
#include "core/printable.h"
#include "data/fingerprint.h"
#include "data/sample_reading.h"
#include "data/shard_files.h"

namespace poseidon::data {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kMaxManifestBytes = uint64_t{16} << 20;

struct OpenShard {
  RecordShard shard;
  int64_t first = 0;  ///< index of the shard's first record in the set
};

void compare_shard(const RecordShard& shard, const ManifestShard& expected, size_t number,
                   uint32_t extra_bytes, const std::string& name) {
  const ShardHeader& header = shard.header();
  if (header.extra_bytes != extra_bytes)
    throw RunError(text(name, ": expected ", extra_bytes, " bytes of extras in each record, got ",
                        header.extra_bytes, ": it belongs to another record set"));
  if (header.shard == number && static_cast<int64_t>(header.records) == expected.records &&
      header_crc(header) == expected.checksum)
    return;
  throw RunError(text(name, ": expected shard ", number, " with ", expected.records,
                      " records and header checksum ", expected.checksum, ", got shard ",
                      header.shard, " with ", header.records, " and ", header_crc(header),
                      ": it belongs to another record set"));
}

RecordShard open_shard(const ShardFiles& files, const Manifest& manifest, size_t number) {
  const ManifestShard& expected = manifest.shards[number];
  const std::string path = files.path(number).string();
  const uint64_t bytes = files.bytes(number);
  if (static_cast<int64_t>(bytes) != expected.bytes)
    throw RunError(text(path, ": expected ", expected.bytes, " bytes, got ", bytes));
  const ReadAt read = [&files, number](uint64_t offset, std::span<std::byte> out) {
    files.read(number, offset, out);
  };
  RecordShard shard(bytes, read, manifest.classes.size(), path);
  compare_shard(shard, expected, number, bytes_of(manifest.extras), path);
  return shard;
}

std::vector<fs::path> shard_paths(const fs::path& folder, const Manifest& manifest) {
  std::vector<fs::path> paths;
  for (const ManifestShard& shard : manifest.shards) paths.push_back(folder / shard.file);
  return paths;
}

class RecordSet final : public Dataset {
 public:
  RecordSet(const fs::path& folder, const Manifest& manifest)
      : files_(shard_paths(folder, manifest)) {
    for (size_t i = 0; i < manifest.shards.size(); ++i) {
      shards_.push_back({open_shard(files_, manifest, i), description_.samples});
      description_.samples += manifest.shards[i].records;
    }
    description_.source = folder.string();
    description_.classes = manifest.classes;
    if (!manifest.shape.empty())
      description_.shape = {manifest.shape[0], manifest.shape[1], manifest.shape[2]};
    description_.extras = manifest.extras;
    Fingerprint fingerprint;
    fingerprint.add(manifest.classes);
    fingerprint.add(manifest.extras);
    for (const ManifestShard& shard : manifest.shards)
      for (int64_t number : {shard.records, shard.bytes, shard.checksum})
        fingerprint.add(static_cast<uint64_t>(number));
    description_.fingerprint = fingerprint.hex();
  }

  const DatasetDescription& description() const override { return description_; }

  void read(int64_t index, Sample& sample) const override {
    const OpenShard& shard = shard_of(index);
    shard.shard.read(static_cast<uint64_t>(index - shard.first), sample);
  }

  size_t memory_bytes() const override {
    size_t bytes = 0;
    for (const OpenShard& shard : shards_) bytes += shard.shard.memory_bytes();
    return bytes;
  }

  std::string name(int64_t index) const override {
    const OpenShard& shard = shard_of(index);
    return shard.shard.record_name(static_cast<uint64_t>(index - shard.first));
  }

 private:
  const OpenShard& shard_of(int64_t index) const {
    check(index >= 0 && index < description_.samples, "sample index outside the record set");
    const auto after =
        std::upper_bound(shards_.begin(), shards_.end(), index,
                         [](int64_t value, const OpenShard& shard) { return value < shard.first; });
    return *(after - 1);
  }

  DatasetDescription description_;
  ShardFiles files_;  ///< `shards_` read from these files
  std::vector<OpenShard> shards_;
};

}  // namespace

namespace {

ShardHeader read_header(uint64_t file_bytes, const ReadAt& read, const std::string& name) {
  std::array<std::byte, kShardHeaderBytes> bytes;
  const auto there = std::span(bytes).first(std::min<uint64_t>(file_bytes, bytes.size()));
  read(0, there);
  return decode_header(there, name);
}

}  // namespace

RecordShard::RecordShard(uint64_t file_bytes, ReadAt read, size_t classes, std::string name)
    : read_(std::move(read)),
      name_(std::move(name)),
      header_(read_header(file_bytes, read_, name_)) {
  if (header_.file_bytes != file_bytes)
    throw RunError(text(name_, ": byte 32: expected ", header_.file_bytes, " bytes, got ",
                        file_bytes,
                        file_bytes < header_.file_bytes ? ": the file is truncated" : ""));
  if (header_.index_offset < kShardHeaderBytes || header_.index_offset > file_bytes ||
      header_.records != (file_bytes - header_.index_offset) / kIndexEntryBytes ||
      (file_bytes - header_.index_offset) % kIndexEntryBytes != 0)
    throw RunError(text(name_, ": byte 16: an index of ", header_.records, " records at byte ",
                        header_.index_offset, " does not fit a file of ", file_bytes, " bytes"));
  index_.resize(file_bytes - header_.index_offset);
  read_(header_.index_offset, index_);
  if (crc32c(index_) != header_.index_crc)
    throw RunError(
        text(name_, ": byte ", header_.index_offset, ": the index's checksum does not match"));
  for (uint64_t record = 0; record < header_.records; ++record) check_entry(record, classes);
}

RecordEntry RecordShard::entry(uint64_t record) const {
  check(record < header_.records, "record beyond the shard");
  return decode_entry(std::span(index_).subspan(record * kIndexEntryBytes, kIndexEntryBytes));
}

void RecordShard::check_entry(uint64_t record, size_t classes) const {
  const RecordEntry at = entry(record);
  const auto fail = [&](const std::string& what) {
    throw RunError(text(name_, ": record ", record, ": ", what));
  };
  const uint64_t length = uint64_t{at.name_bytes} + at.payload_bytes + header_.extra_bytes;
  if (at.offset < kShardHeaderBytes || at.offset > header_.index_offset ||
      length > header_.index_offset - at.offset)
    fail(text("expected its data between bytes ", kShardHeaderBytes, " and ", header_.index_offset,
              ", got ", length, " bytes at byte ", at.offset));
  if (at.label >= classes)
    fail(text("expected a label below ", classes, ", the number of classes, got ", at.label));
  if (at.form != SampleForm::kEncoded && at.form != SampleForm::kPixels)
    fail(text("expected form 0 or 1, got ", static_cast<int>(at.form)));
  // The product of two 32-bit extents and the 8-bit number of channels could overflow 64 bits. So
  // the area is limited first.
  const uint64_t area = uint64_t{at.height} * at.width;
  if (at.form == SampleForm::kPixels &&
      (area == 0 || area > UINT32_MAX || area * at.channels != at.payload_bytes))
    fail(text("expected ", static_cast<int>(at.channels), "x", at.height, "x", at.width,
              " pixels, got ", at.payload_bytes, " bytes"));
}

void RecordShard::read(uint64_t record, Sample& sample) const {
  const RecordEntry at = entry(record);
  sample.storage.resize(size_t{at.name_bytes} + at.payload_bytes + header_.extra_bytes);
  const std::span<const std::byte> all = sample.storage;
  read_for_sample([&] { return record_name(record) + ": cannot be read: "; },
                  [&] { read_(at.offset, sample.storage); });
  if (crc32c(all) != at.crc)
    throw CorruptSample(text(record_name(record), ": the record's checksum does not match"));
  sample.label = static_cast<int32_t>(at.label);
  sample.form = at.form;
  sample.channels = at.channels;
  sample.height = at.height;
  sample.width = at.width;
  sample.bytes = all.subspan(at.name_bytes, at.payload_bytes);
  sample.extras = all.last(header_.extra_bytes);
}

std::string RecordShard::record_name(uint64_t record) const {
  const RecordEntry at = entry(record);
  std::string name(at.name_bytes, '\0');
  try {
    read_(at.offset, std::as_writable_bytes(std::span(name)));
  } catch (const std::runtime_error&) {
    return text(name_, " #", record);
  }
  return text(name_, " #", record, " (", printable(name), ")");
}

std::unique_ptr<Dataset> open_record_set(const std::string& folder) {
  const fs::path path = fs::path(folder) / kManifestName;
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    throw ConfigError(text(path.string(),
                           ": no such file; expected the folder of a record set "
                           "(made by poseidon-data pack)"));
  std::vector<std::byte> bytes;
  read_file(path, kMaxManifestBytes, bytes);
  const std::string json_text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return std::make_unique<RecordSet>(folder, parse_manifest(json_text, path.string()));
}

}  // namespace poseidon::data
