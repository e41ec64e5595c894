#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/file.h"
#include "data/record_format.h"

namespace poseidon::data {

/// Writes a record set. Everything goes to a folder with a temporary name beside `folder`; finish()
/// syncs it and gives it its name. Without finish() nothing stays.
class RecordWriter {
 public:
  /// Throws ConfigError when `folder` exists and is not an empty folder, or cannot be made.
  RecordWriter(std::filesystem::path folder, uint64_t shard_bytes);
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  /// Called before finish(), with a class for each label.
  void set_classes(std::vector<std::string> classes) { manifest_.classes = std::move(classes); }
  /// A folder where other temporary files may lie while the set is written.
  const std::filesystem::path& work_folder() const { return temporary_; }

  /// What all samples have beside image and label; called before the first add(), and perhaps again
  /// with the same. Throws RunError, beginning with `source`, for others.
  void set_extras(const std::vector<Extra>& extras, const std::string& source);
  /// Appends a sample: an image file (with the size its header says) or pixels.
  void add(const std::string& name, const Sample& sample);
  /// Syncs the set and gives it its name. Throws RunError when nothing was added.
  void finish();

 private:
  void open_shard();
  void close_shard();
  void note_shape(const Sample& sample);

  std::filesystem::path folder_, temporary_;
  uint64_t shard_bytes_;
  Manifest manifest_;
  bool shapes_differ_ = false;
  int32_t highest_label_ = 0;
  std::optional<AtomicFile> shard_;
  uint64_t shard_records_ = 0;
  std::vector<std::byte> index_;
};

}  // namespace poseidon::data
