#include "data/record_writer.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "core/digest.h"
#include "core/error.h"

namespace poseidon::data {

namespace fs = std::filesystem;

namespace {

/// Returns `folder` without a slash at its end, so that parent_path() is its parent.
fs::path normal(const fs::path& folder) {
  const fs::path path = fs::absolute(folder).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

void check_free(const fs::path& folder) {
  std::error_code failure;
  if (!fs::exists(folder, failure)) return;
  if (!fs::is_directory(folder, failure) || !fs::is_empty(folder, failure))
    throw ConfigError(text(folder.string(), ": exists already; expected a new or empty folder"));
}

}  // namespace

RecordWriter::RecordWriter(fs::path folder, uint64_t shard_bytes)
    : folder_(normal(folder)), shard_bytes_(shard_bytes) {
  check_free(folder_);
  const fs::path temporary =
      folder_.parent_path() / text(".", folder_.filename().string(), ".", ::getpid(), ".partial");
  std::error_code failure;
  fs::create_directories(temporary, failure);
  if (failure)
    throw ConfigError(text(folder_.string(), ": cannot be created: ", failure.message()));
  temporary_ = temporary;
}

RecordWriter::~RecordWriter() {
  shard_.reset();
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

void RecordWriter::open_shard() {
  char name[32];
  std::snprintf(name, sizeof name, "%05zu.records", manifest_.shards.size());
  manifest_.shards.push_back({.file = name});
  shard_.emplace(temporary_ / name);
  shard_->write(std::vector<std::byte>(kShardHeaderBytes));
  shard_records_ = 0;
  index_.clear();
}

void RecordWriter::close_shard() {
  shard_->write(std::vector<std::byte>((8 - shard_->bytes() % 8) % 8));
  ShardHeader header;
  header.shard = static_cast<uint32_t>(manifest_.shards.size() - 1);
  header.records = shard_records_;
  header.index_offset = shard_->bytes();
  header.file_bytes = header.index_offset + index_.size();
  header.index_crc = crc32c(index_);
  header.extra_bytes = bytes_of(manifest_.extras);
  shard_->write(index_);
  shard_->write_at(0, encode(header));
  shard_->commit();
  shard_.reset();
  ManifestShard& shard = manifest_.shards.back();
  shard.records = static_cast<int64_t>(header.records);
  shard.bytes = static_cast<int64_t>(header.file_bytes);
  shard.checksum = header_crc(header);
}

void RecordWriter::set_auxiliary_inputs(const std::vector<AuxiliaryInput>& extras,
                                        const std::string& source) {
  if (manifest_.samples > 0 && extras != manifest_.extras)
    throw RunError(text(source, ": expected the same extras as in earlier samples (",
                        text_of(manifest_.extras), "), got ", text_of(extras)));
  if (const AuxiliaryInputError fault = first_error_in(extras))
    throw RunError(text(source, ": ", fault.message));
  manifest_.extras = extras;
}

void RecordWriter::note_shape(const Sample& sample) {
  const std::vector<int64_t> shape{sample.channels, sample.height, sample.width};
  if (manifest_.samples == 0) manifest_.shape = shape;
  if (manifest_.shape != shape) shapes_differ_ = true;
}

void RecordWriter::add(const std::string& name, const Sample& sample) {
  check(sample.label >= 0, "label of a record below zero");
  highest_label_ = std::max(highest_label_, sample.label);
  check(sample.form != SampleForm::kFloats, "a record set holds no floats");
  check(sample.extras.size() == bytes_of(manifest_.extras), "a sample has the extras of its set");
  if (sample.bytes.size() > UINT32_MAX - UINT16_MAX)
    throw RunError(text(name, ": too large for a record: ", sample.bytes.size(), " bytes"));
  const std::string kept = name.substr(0, UINT16_MAX);
  const size_t bytes = kept.size() + sample.bytes.size() + sample.extras.size();
  if (shard_ && shard_->bytes() + bytes > shard_bytes_) close_shard();
  if (!shard_) open_shard();
  note_shape(sample);

  RecordEntry entry;
  entry.offset = shard_->bytes();
  entry.payload_bytes = static_cast<uint32_t>(sample.bytes.size());
  entry.crc = crc32c(sample.extras, crc32c(sample.bytes, crc32c(as_bytes(kept))));
  entry.label = static_cast<uint32_t>(sample.label);
  entry.name_bytes = static_cast<uint16_t>(kept.size());
  entry.form = sample.form;
  entry.channels = static_cast<uint8_t>(sample.channels);
  entry.height = static_cast<uint32_t>(sample.height);
  entry.width = static_cast<uint32_t>(sample.width);
  append(entry, index_);
  shard_->write(as_bytes(kept));
  shard_->write(sample.bytes);
  shard_->write(sample.extras);
  ++shard_records_;
  ++manifest_.samples;
}

void RecordWriter::finish() {
  if (manifest_.samples == 0) throw RunError(text(folder_.string(), ": no samples to write"));
  check(static_cast<size_t>(highest_label_) < manifest_.classes.size(),
        "label of a record outside the classes");
  close_shard();
  if (shapes_differ_) manifest_.shape.clear();
  AtomicFile file(temporary_ / kManifestName);
  file.write(as_bytes(manifest_text(manifest_)));
  file.commit();
  std::error_code failure;
  fs::rename(temporary_, folder_, failure);
  if (failure)
    throw RunError(
        text(folder_.string(), ": cannot be renamed to its final name: ", failure.message()));
  temporary_.clear();
  sync_folder(folder_.parent_path());
}

}  // namespace poseidon::data
