#include "data/record_set.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/digest.h"
#include "data/loader.h"
#include "data/record_writer.h"
#include "data/shard_files.h"
#include "tests/data/made_files.h"
#include "tests/data/recording_log.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::data;
using made::Bytes;

namespace {

Bytes payload(int i) { return Bytes(static_cast<size_t>(3 * (i + 1)), static_cast<std::byte>(i)); }

Sample pixels(int i, const Bytes& bytes) {
  Sample sample;
  sample.label = i % 2;
  sample.channels = 3;
  sample.height = 1;
  sample.width = i + 1;
  sample.bytes = bytes;
  return sample;
}

/// Writes ten records of increasing width in several shards.
void write_set(const std::filesystem::path& folder) {
  RecordWriter writer(folder, 256);
  writer.set_classes({"cat", "dog"});
  for (int i = 0; i < 10; ++i) {
    const Bytes bytes = payload(i);
    writer.add("cat/" + std::to_string(i), pixels(i, bytes));
  }
  writer.finish();
}

void flip(Bytes& bytes, size_t bit) { bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8)); }

/// Checks that each flipped bit is detected, when the shard is opened or when a record is read.
void refuses_every_flipped_bit(const std::filesystem::path& file) {
  const Bytes whole = made::read(file);
  const std::string name = file.string();
  const RecordShard shard(whole.size(), made::reader_of(whole), 2, name);
  // Unused zeros may be between the records and the index.
  const RecordEntry last = shard.entry(shard.records() - 1);
  const size_t padding =
      last.offset + last.name_bytes + last.payload_bytes + shard.header().extra_bytes;
  Sample sample;
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    if (bit / 8 >= padding && bit / 8 < shard.header().index_offset) continue;
    Bytes damaged = whole;
    flip(damaged, bit);
    const auto read_all = [&] {
      const RecordShard altered(damaged.size(), made::reader_of(damaged), 2, name);
      for (uint64_t i = 0; i < altered.records(); ++i) altered.read(i, sample);
    };
    CHECK_THROWS_AS(read_all(), RunError);
  }
}

size_t entries_in(const std::filesystem::path& folder) {
  const std::filesystem::directory_iterator at(folder), end;
  return static_cast<size_t>(std::distance(at, end));
}

}  // namespace

TEST_CASE("records: written samples are read in any order") {
  const made::Folder folder;
  write_set(folder / "set");
  const auto dataset = open_record_set((folder / "set").string());
  CHECK(dataset->size() == 10);
  CHECK(dataset->classes() == std::vector<std::string>{"cat", "dog"});
  CHECK(dataset->description().shape.rank() == 0);
  CHECK(std::filesystem::exists(folder / "set/00001.records"));
  Sample sample;
  for (int i : {9, 0, 5, 5, 1, 2, 3, 4, 6, 7, 8}) {
    dataset->read(i, sample);
    CHECK(sample.label == i % 2);
    CHECK(sample.width == i + 1);
    CHECK(Bytes(sample.bytes.begin(), sample.bytes.end()) == payload(i));
    CHECK(dataset->name(i).ends_with("(cat/" + std::to_string(i) + ")"));
  }
}

TEST_CASE("records: equal samples produce equal files and fingerprints") {
  const made::Folder folder;
  write_set(folder / "a");
  write_set(folder / "b");
  CHECK(made::read(folder / "a/00000.records") == made::read(folder / "b/00000.records"));
  CHECK(open_record_set((folder / "a").string())->fingerprint() ==
        open_record_set((folder / "b").string())->fingerprint());
}

TEST_CASE("records: every flipped bit is detected when the set is opened or read") {
  const made::Folder folder;
  write_set(folder / "set");
  refuses_every_flipped_bit(folder / "set/00000.records");
}

TEST_CASE("records: a truncated, replaced or missing shard is refused") {
  const made::Folder folder;
  write_set(folder / "set");
  const auto open = [&] { open_record_set((folder / "set").string()); };
  const std::string first = (folder / "set/00000.records").string();
  const Bytes whole = made::read(first);
  made::write(first, std::span(whole).first(whole.size() - 1));
  CHECK_THROWS_WITH_AS(open(),
                       (first + ": expected " + std::to_string(whole.size()) + " bytes, got " +
                        std::to_string(whole.size() - 1))
                           .c_str(),
                       RunError);
  std::filesystem::remove(first);
  CHECK_THROWS_AS(open(), ConfigError);
  RecordWriter writer(folder / "other", 256);
  writer.set_classes({"cat", "dog"});
  const Bytes bytes(whole.size() - kShardHeaderBytes - kIndexEntryBytes - 5, std::byte{1});
  Sample sample = pixels(0, bytes);
  sample.form = SampleForm::kEncoded;
  writer.add("other", sample);
  writer.finish();
  std::filesystem::copy(folder / "other/00000.records", first);
  CHECK_THROWS_AS(open(), RunError);
}

TEST_CASE("records: an altered manifest is refused") {
  const made::Folder folder;
  write_set(folder / "set");
  const auto path = folder / "set/records.json";
  Bytes manifest = made::read(path);
  std::string content(reinterpret_cast<const char*>(manifest.data()), manifest.size());
  content.replace(content.find("\"dog\""), 5, "\"cow\"");
  made::write(path, made::bytes_of(content));
  CHECK_THROWS_WITH_AS(open_record_set((folder / "set").string()),
                       doctest::Contains("the manifest was altered"), RunError);
  std::filesystem::remove(path);
  CHECK_THROWS_WITH_AS(open_record_set((folder / "set").string()),
                       doctest::Contains("expected the folder of a record set"), ConfigError);
}

TEST_CASE("records: invalid index entries are refused even if their checksums match") {
  RecordEntry entry;
  entry.offset = kShardHeaderBytes;
  entry.payload_bytes = 3;
  entry.form = SampleForm::kPixels;
  entry.channels = 3;
  entry.height = entry.width = 1;
  const auto shard_with = [](const RecordEntry& lying) {
    Bytes index;
    append(lying, index);
    ShardHeader header;
    header.records = 1;
    header.index_offset = kShardHeaderBytes + 8;
    header.file_bytes = header.index_offset + kIndexEntryBytes;
    header.index_crc = crc32c(index);
    Bytes bytes = encode(header);
    bytes.resize(header.index_offset);
    bytes.insert(bytes.end(), index.begin(), index.end());
    RecordShard(bytes.size(), made::reader_of(bytes), 2, "f");
  };
  CHECK_NOTHROW(shard_with(entry));
  RecordEntry lying = entry;
  lying.offset = ~uint64_t{0} - 2;
  CHECK_THROWS_AS(shard_with(lying), RunError);
  lying = entry;
  lying.payload_bytes = 9;
  CHECK_THROWS_AS(shard_with(lying), RunError);
  lying = entry;
  lying.label = 2;
  CHECK_THROWS_WITH_AS(shard_with(lying),
                       "f: record 0: expected a label below 2, the number of classes, got 2",
                       RunError);
  lying = entry;
  lying.height = 0x80000000;
  lying.width = 0x80000000;
  CHECK_THROWS_AS(shard_with(lying), RunError);
  lying = entry;
  lying.form = static_cast<SampleForm>(7);
  CHECK_THROWS_WITH_AS(shard_with(lying), "f: record 0: expected form 0 or 1, got 7", RunError);
}

TEST_CASE("records: an unfinished writer removes its files, a non-empty folder is refused") {
  const made::Folder folder;
  {
    RecordWriter writer(folder / "set", 256);
    writer.set_classes({"cat"});
    const Bytes bytes = payload(0);
    writer.add("a", pixels(0, bytes));
  }
  CHECK(entries_in(folder.text()) == 0);
  made::write(folder / "full/file", made::bytes_of("x"));
  CHECK_THROWS_WITH_AS(RecordWriter(folder / "full", 256),
                       doctest::Contains("expected a new or empty folder"), ConfigError);
  CHECK(entries_in(folder.text()) == 1);
}

namespace {

const std::vector<AuxiliaryInput> kPoseAndMap{{"pose", {2}}, {"map", {1, 1, 3}}};

std::vector<float> values_of_extras(int i) {
  return {static_cast<float>(i), -0.5F, 1, 2, static_cast<float>(i) / 3};
}

/// Writes the ten records with auxiliary inputs.
void write_set_with_extras(const std::filesystem::path& folder) {
  RecordWriter writer(folder, 256);
  writer.set_classes({"cat", "dog"});
  writer.set_auxiliary_inputs(kPoseAndMap, "here");
  for (int i = 0; i < 10; ++i) {
    const Bytes bytes = payload(i);
    const std::vector<float> values = values_of_extras(i);
    Sample sample = pixels(i, bytes);
    sample.extras = std::as_bytes(std::span(values));
    writer.add("cat/" + std::to_string(i), sample);
  }
  writer.finish();
}

}  // namespace

TEST_CASE("records: written auxiliary inputs are read in any order") {
  const made::Folder folder;
  write_set_with_extras(folder / "set");
  const auto dataset = open_record_set((folder / "set").string());
  CHECK(dataset->description().extras == kPoseAndMap);
  CHECK(std::filesystem::exists(folder / "set/00001.records"));
  Sample sample;
  for (int i : {9, 0, 5, 1, 2, 3, 4, 6, 7, 8}) {
    dataset->read(i, sample);
    CHECK(Bytes(sample.bytes.begin(), sample.bytes.end()) == payload(i));
    std::vector<float> values(5);
    REQUIRE(sample.extras.size() == 5 * sizeof(float));
    std::ranges::copy(sample.extras, std::as_writable_bytes(std::span(values)).begin());
    CHECK(values == values_of_extras(i));
  }
}

TEST_CASE("records: the version is 2 with auxiliary inputs and 1 without") {
  const made::Folder folder;
  write_set(folder / "plain");
  write_set_with_extras(folder / "extras");
  const auto version = [&](const std::string& set) {
    return std::to_integer<int>(made::read(folder / (set + "/00000.records"))[8]);
  };
  const auto manifest = [&](const std::string& set) {
    const Bytes bytes = made::read(folder / (set + "/records.json"));
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  CHECK(version("plain") == 1);
  CHECK(manifest("plain").find("extras") == std::string::npos);
  CHECK(manifest("plain").find("\"version\": 1") != std::string::npos);
  CHECK(version("extras") == 2);
  CHECK(manifest("extras").find("\"version\": 2") != std::string::npos);
  // Computed by another program from the bytes of version 1.
  CHECK(open_record_set((folder / "plain").string())->fingerprint() ==
        "d7a90cd88cd5709d0d445b5af693e490eb9692c273d6a7dd229de622501478eb");
  CHECK(open_record_set((folder / "plain").string())->fingerprint() !=
        open_record_set((folder / "extras").string())->fingerprint());
}

TEST_CASE("records: every flipped bit of a record with auxiliary inputs is detected") {
  const made::Folder folder;
  write_set_with_extras(folder / "set");
  refuses_every_flipped_bit(folder / "set/00000.records");
}

TEST_CASE("records: a shard whose auxiliary inputs differ from the manifest is refused") {
  const made::Folder folder;
  write_set_with_extras(folder / "set");
  write_set(folder / "plain");
  const auto copied = std::filesystem::copy_options::overwrite_existing;
  std::filesystem::copy(folder / "plain/records.json", folder / "set/records.json", copied);
  CHECK_THROWS_AS(open_record_set((folder / "set").string()), RunError);
  ShardHeader header{.shard = 0, .records = 0, .index_offset = 64, .file_bytes = 64};
  header.extra_bytes = 6;
  CHECK_THROWS_WITH_AS(
      decode_header(encode(header), "s"),
      "s: byte 44: expected extras as floats of 4 bytes in each record, got 6 bytes", RunError);
}

TEST_CASE("records: the writer refuses auxiliary inputs that differ from earlier samples") {
  const made::Folder folder;
  RecordWriter writer(folder / "set", 256);
  writer.set_classes({"cat"});
  writer.set_auxiliary_inputs({{"pose", {1}}}, "first");
  const Bytes bytes = payload(0);
  const std::vector<float> value{1};
  Sample sample = pixels(0, bytes);
  sample.extras = std::as_bytes(std::span(value));
  writer.add("a", sample);
  writer.set_auxiliary_inputs({{"pose", {1}}}, "second");
  CHECK_THROWS_WITH_AS(writer.set_auxiliary_inputs({{"pose", {2}}}, "third"),
                       "third: expected the same extras as in earlier samples (pose 1), got pose 2",
                       RunError);
}

namespace {

/// Writes records of 2 x 2 pixels in several shards.
void write_equal_records(const std::filesystem::path& folder, int records, int of = 0) {
  RecordWriter writer(folder, 256);
  writer.set_classes({"cat", "dog"});
  const Bytes bytes(12, static_cast<std::byte>(of));
  Sample sample{.label = 1, .height = 2, .width = 2, .channels = 3, .bytes = bytes, .storage = {}};
  for (int i = 0; i < records; ++i) writer.add("dog/" + std::to_string(i), sample);
  writer.finish();
}

/// A loader of one record per batch, in order.
class RecordLoader {
 public:
  RecordLoader(const std::filesystem::path& folder, OnError on_error)
      : dataset_(open_record_set(folder.string())),
        transform_({}, {3, 2, 2}, Phase::kTrain, 1, dataset_->description().shape),
        loader_(*dataset_, transform_, options(on_error), log_) {}
  const Batch& next() { return loader_.next(); }
  std::vector<std::string> warnings() { return log_.sorted(); }

 private:
  static LoaderOptions options(OnError on_error) {
    LoaderOptions options;
    options.shuffle = false;
    options.on_error = on_error;
    options.shards = {{0, 1}};
    options.ready_batches = 2;
    return options;
  }

  RecordingLog log_;
  std::unique_ptr<Dataset> dataset_;
  Transform transform_;
  Loader loader_;
};

}  // namespace

TEST_CASE("records: a shard truncated while a loader reads it yields corrupt samples") {
  for (const OnError on_error : {OnError::kStop, OnError::kSkip}) {
    const made::Folder folder;
    write_equal_records(folder / "set", 20);
    const std::filesystem::path last = folder / "set/00001.records";
    REQUIRE(std::filesystem::exists(last));
    RecordLoader loader(folder / "set", on_error);
    loader.next();
    std::filesystem::resize_file(last, kShardHeaderBytes);
    std::string fault;
    for (int i = 1; i < 20 && fault.empty(); ++i)
      fault = error_of<CorruptSample>([&] { loader.next(); });
    const std::string expected = last.string() + " #0: cannot be read: " + last.string() + ": ends";
    if (on_error == OnError::kStop) {
      CHECK(fault.starts_with(expected));
    } else {
      CHECK(fault.empty());
      REQUIRE(!loader.warnings().empty());
      CHECK(loader.warnings()[0].starts_with(expected));
      CHECK(loader.warnings()[0].ends_with("; skipped"));
    }
  }
}

TEST_CASE("records: a shard replaced while it is read yields corrupt samples") {
  const made::Folder folder;
  write_equal_records(folder / "set", 20);
  write_equal_records(folder / "other", 20, 7);
  const auto dataset = open_record_set((folder / "set").string());
  const std::string first = (folder / "set/00000.records").string();
  const auto fault = [&] {
    Sample sample;
    return error_of<CorruptSample>([&] { dataset->read(3, sample); });
  };
  CHECK(fault().empty());
  std::filesystem::copy(folder / "other/00000.records", first,
                        std::filesystem::copy_options::overwrite_existing);
  CHECK(fault() == first + " #3 (dog/3): the record's checksum does not match");
  // The shard file was replaced by a longer one whose content does not match the index.
  made::write(first, made::Bytes(100000));
  CHECK(fault().find("the record's checksum does not match") != std::string::npos);
}

TEST_CASE("records: only some shards stay open, and reading a deleted shard is an error") {
  const made::Folder folder;
  std::vector<std::filesystem::path> paths;
  for (int i = 0; i < 5; ++i) {
    paths.push_back(folder / std::to_string(i));
    made::write(paths.back(), made::bytes_of("shard " + std::to_string(i)));
  }
  const ShardFiles files(paths, 2);
  const auto content = [&](size_t shard) {
    std::string read(7, ' ');
    files.read(shard, 0, std::as_writable_bytes(std::span(read)));
    return read;
  };
  for (size_t shard : {0, 1, 0, 2, 3, 4, 4, 0, 1})
    CHECK(content(shard) == "shard " + std::to_string(shard));
  for (const auto& path : paths) std::filesystem::remove(path);
  CHECK(content(0) == "shard 0");  // one of the two open shards
  CHECK(content(1) == "shard 1");
  CHECK(error_of<ConfigError>([&] { content(2); }) ==
        paths[2].string() + ": cannot be opened: No such file or directory");

  write_equal_records(folder / "set", 20);
  const auto dataset = open_record_set((folder / "set").string());
  std::filesystem::remove(folder / "set/00001.records");
  Sample sample;
  dataset->read(0, sample);
}
