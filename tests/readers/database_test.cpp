// Tests for all formats: linked once per format, with the source that makes a database of that
// format.

#include "data/database.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "data/pack.h"
#include "data/record_set.h"
#include "tests/data/made_files.h"
#include "tests/readers/damage.h"
#include "tests/readers/made_database.h"
#include "tests/support/folders.h"
#include "tests/support/sanitizers.h"

using namespace poseidon;
using namespace poseidon::readers;
using data::made::Bytes;
using data::made::Folder;

namespace {

data::PackOptions pack_options(const std::filesystem::path& input,
                               const std::filesystem::path& output) {
  data::PackOptions options;
  options.type = made::kType == data::DatabaseType::kLmdb      ? data::PackType::kLmdb
                 : made::kType == data::DatabaseType::kLevelDb ? data::PackType::kLevelDb
                                                               : data::PackType::kHdf5;
  options.inputs = {input};
  options.output = output;
  options.programs = test::program_folder();
  return options;
}

data::PackReport pack(const data::PackOptions& options) {
  SilentLog log;
  return data::pack_samples(options, log, [](int64_t, int64_t) {});
}

std::byte value_at(const made::Entry& entry, int64_t channel, int64_t position) {
  return entry.values[static_cast<size_t>(channel * entry.height * entry.width + position)];
}

/// The pixels in the order height x width x channels. `turned`: with reversed channels.
Bytes pixels_of(const made::Entry& entry, bool turned) {
  Bytes out;
  for (int64_t i = 0; i < entry.height * entry.width; ++i)
    for (int64_t c = 0; c < entry.channels; ++c)
      out.push_back(value_at(entry, turned ? entry.channels - 1 - c : c, i));
  return out;
}

}  // namespace

TEST_CASE("a database becomes a record set with all pixels and labels in key order") {
  const Folder folder;
  const std::vector<made::Entry> entries = made::entries(120);
  made::make_database(folder / "db", entries);
  for (const bool turned : {false, true}) {
    data::PackOptions options = pack_options(folder / "db", folder / (turned ? "rgb" : "as-is"));
    options.bgr_to_rgb = turned;
    const data::PackReport report = pack(options);
    CHECK(report.samples == 120);
    CHECK(report.classes == 10);
    const auto records = data::open_record_set(options.output.string());
    CHECK(records->description().shape == Shape{3, 4, 5});
    CHECK(records->classes().back() == "9");
    data::Sample sample;
    for (size_t i = 0; i < entries.size(); ++i) {
      records->read(static_cast<int64_t>(i), sample);
      REQUIRE(sample.label == entries[i].label);
      REQUIRE(Bytes(sample.bytes.begin(), sample.bytes.end()) == pixels_of(entries[i], turned));
    }
  }
}

TEST_CASE("reading does not change a database, and its type is detected") {
  const Folder folder;
  const bool file = made::kType == data::DatabaseType::kHdf5;
  const std::filesystem::path path = folder / (file ? "db.h5" : "db");
  made::make_database(path, made::entries(20));
  const auto contents = [&] {
    std::vector<std::pair<std::string, Bytes>> out;
    if (file) return std::vector{std::pair{std::string("db"), data::made::read(path)}};
    for (const auto& entry : std::filesystem::directory_iterator(path))
      out.emplace_back(entry.path().filename().string(), data::made::read(entry.path()));
    std::sort(out.begin(), out.end());
    return out;
  };
  const auto before = contents();
  CHECK(read_all(path, std::chrono::seconds(60)).samples == 20);
  CHECK(contents() == before);
  CHECK(data::guess_pack_type(path) == pack_options(path, "").type);
}

TEST_CASE("a damaged database is read partly or refused with a one-line error") {
  const Folder folder;
  made::make_database(folder / "whole", made::entries(120));
  const uint64_t seeds = test::kIsSanitized ? 4 : 34;
  int64_t refused = 0;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    const Outcome outcome = read_damaged(folder / "whole", folder / "damaged", seed);
    CHECK(outcome.samples + outcome.corrupt <= 120);
    CAPTURE(outcome.error);
    if (outcome.error.empty()) continue;
    ++refused;
    CHECK(is_clear(outcome.error, folder / "damaged"));
  }
  CHECK(refused > 0);
}

TEST_CASE("a folder or file that is no database is refused with its path") {
  const Folder folder;
  data::made::write(folder / "db/data.mdb", data::made::bytes_of(std::string(8192, 'x')));
  data::made::write(folder / "db/CURRENT", data::made::bytes_of("MANIFEST-000002\n"));
  data::made::write(folder / "file", data::made::bytes_of("nothing of the kind"));
  for (const char* name : {"db", "file"}) {
    const Outcome outcome = read_all(folder / name, std::chrono::seconds(60));
    CAPTURE(outcome.error);
    CHECK(is_clear(outcome.error, folder / name));
    CHECK_FALSE(outcome.crashed());
  }
  CHECK_THROWS_AS(pack(pack_options(folder / "db", folder / "out")), ConfigError);
  CHECK_FALSE(std::filesystem::exists(folder / "out"));
}

TEST_CASE("a FIFO is refused at once") {
  const Folder folder;
  const std::filesystem::path fifo = folder / "fifo";
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  const std::string expected = fifo.string() + ": expected a file or folder, got a special file";
  CHECK_THROWS_WITH_AS(read_all(fifo, std::chrono::seconds(5)), expected.c_str(), ConfigError);
}

TEST_CASE("a reader that starts without standard output does not use its descriptor for a file") {
  const Folder folder;
  made::make_database(folder / "db", made::entries(120));
  const std::string format = made::kType == data::DatabaseType::kLmdb      ? "lmdb"
                             : made::kType == data::DatabaseType::kLevelDb ? "leveldb"
                                                                           : "hdf5";
  const std::string program = test::program_folder() + "/poseidon-read-" + format;
  CHECK(std::system((program + " " + (folder / "db").string() + " >&-").c_str()) == 0);
}
