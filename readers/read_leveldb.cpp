// poseidon-read-leveldb: reads the entries of a Caffe database in LevelDB.

#include <leveldb/db.h>
#include <leveldb/options.h>

#include <memory>

#include "core/error.h"
#include "readers/read_only_env.h"
#include "readers/reader_program.h"

namespace {

using poseidon::RunError;
using poseidon::text;

void need(const leveldb::Status& status) {
  if (!status.ok()) throw RunError(text("LevelDB: ", status.ToString()));
}

std::span<const std::byte> bytes_of(const leveldb::Slice& slice) {
  return std::as_bytes(std::span(slice.data(), slice.size()));
}

/// Opens a database, which the caller must not close (readers/read_only_env.h).
leveldb::DB& open_database(const std::string& path) {
  leveldb::Options options;
  options.env = poseidon::readers::make_read_only_env().release();
  options.create_if_missing = false;
  options.paranoid_checks = true;
  leveldb::DB* database = nullptr;
  need(leveldb::DB::Open(options, path, &database));
  return *database;
}

void read_all(const std::string& path, const poseidon::readers::Begin& begin) {
  leveldb::DB& database = open_database(path);
  leveldb::ReadOptions options;
  options.verify_checksums = true;
  options.fill_cache = false;
  const std::unique_ptr<leveldb::Iterator> entries(database.NewIterator(options));
  auto& writer = begin(0);
  for (entries->SeekToFirst(); entries->Valid(); entries->Next())
    writer.add(bytes_of(entries->key()), bytes_of(entries->value()));
  need(entries->status());
}

}  // namespace

int main(int count, char** arguments) { poseidon::readers::run_reader(count, arguments, read_all); }
