#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/file.h"
#include "data/record_format.h"

namespace poseidon::data {

/// Writes a record set, first to a temporary folder next to the final one. finish() syncs the
/// temporary folder and renames it. Without finish(), the destructor removes it.
class RecordWriter {
 public:
  /// A shard with more than one record has at most about `shard_bytes` bytes. Throws ConfigError if
  /// `folder` exists and is not an empty folder, or cannot be created.
  RecordWriter(std::filesystem::path folder, uint64_t shard_bytes);
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  /// Call before finish(). There must be a class for each label.
  void set_classes(std::vector<std::string> classes) { manifest_.classes = std::move(classes); }
  /// Returns a folder for other temporary files. A file that remains there at finish() becomes a
  /// part of the set.
  const std::filesystem::path& work_folder() const { return temporary_; }

  /// Sets the names and shapes of the auxiliary inputs, which are equal for all samples. Samples
  /// with auxiliary inputs need a call before the first add(). Throws RunError whose message begins
  /// with `source` if the inputs are invalid, or if a call after add() changes them.
  void set_auxiliary_inputs(const std::vector<AuxiliaryInput>& extras, const std::string& source);
  /// Appends a sample: pixels, or an image file together with the size from its header. Throws
  /// RunError if the sample is too large for a record or cannot be written.
  void add(const std::string& name, const Sample& sample);
  /// Syncs the set and renames its folder. Throws RunError if no sample was added or a file
  /// operation fails.
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
