#include "data/database.h"

#include <optional>

#include "core/error.h"
#include "core/printable.h"
#include "data/datum.h"
#include "data/entry_pipe.h"
#include "data/reader_process.h"

namespace poseidon::data {

namespace fs = std::filesystem;

namespace {

const char* program_of(DatabaseType type) {
  switch (type) {
    case DatabaseType::kLmdb: return "poseidon-read-lmdb";
    case DatabaseType::kLevelDb: return "poseidon-read-leveldb";
    case DatabaseType::kHdf5: return "poseidon-read-hdf5";
  }
  return "";
}

class Database final : public SampleStream {
 public:
  Database(DatabaseType type, const fs::path& path, const DatabaseOptions& options)
      : path_(path.string()),
        prefix_(type == DatabaseType::kHdf5 ? path.filename().string() + "/" : ""),
        bgr_to_rgb_(options.bgr_to_rgb),
        copies_auxiliary_inputs_(!options.extras.empty()) {
    if (!fs::exists(path)) throw ConfigError(text(path_, ": no such file or folder"));
    if (!fs::is_regular_file(path) && !fs::is_directory(path))
      throw ConfigError(text(path_, ": expected a file or folder, got a special file"));
    process_.emplace(options.programs / program_of(type), path, options.extras,
                     options.stall_limit);
    with_place([&] {
      entries_.emplace([this](std::span<std::byte> out) { process_->read(out); });
      return true;
    });
  }

  bool next(std::string& name, Sample& sample) override {
    if (!with_place([&] { return entries_->next(key_, value_); })) return false;
    name = prefix_ + printable(key_);
    const std::string place = text(path_, ": ", name);
    const Datum datum = parse_datum(value_, place);
    fill_from_datum(datum, bgr_to_rgb_, place, sample);
    if (copies_auxiliary_inputs_) extras_ = copy_auxiliary_inputs(datum, place, sample);
    return true;
  }
  std::vector<AuxiliaryInput> extras() const override { return extras_; }

  std::string source() const override { return path_; }
  int64_t size() const override { return static_cast<int64_t>(entries_->count()); }

 private:
  /// Calls `act`. Adds the file, and the number of samples read so far, to the message of a
  /// RunError.
  template <class Act>
  bool with_place(const Act& act) {
    try {
      return act();
    } catch (const RunError& error) {
      const uint64_t done = entries_ ? entries_->done() : 0;
      throw RunError(
          text(path_, ": ", done > 0 ? text("after ", done, " samples: ") : "", error.what()));
    }
  }

  std::string path_, prefix_;
  bool bgr_to_rgb_, copies_auxiliary_inputs_;
  std::optional<ReaderProcess> process_;
  std::optional<EntryReader> entries_;
  std::vector<AuxiliaryInput> extras_;  ///< auxiliary inputs of the last sample
  std::string key_;
  std::vector<std::byte> value_;  ///< the last entry's Datum; sample.bytes may point into it
};

}  // namespace

std::unique_ptr<SampleStream> open_database(DatabaseType type, const fs::path& path,
                                            const DatabaseOptions& options) {
  return std::make_unique<Database>(type, path, options);
}

}  // namespace poseidon::data
