// poseidon-read-lmdb: reads the entries of a Caffe database in LMDB.

#include <lmdb.h>

#include <filesystem>
#include <memory>
#include <system_error>

#include "core/error.h"
#include "readers/reader_program.h"

namespace {

namespace fs = std::filesystem;
using poseidon::RunError;
using poseidon::text;

struct Close {
  void operator()(MDB_env* env) const { mdb_env_close(env); }
  void operator()(MDB_txn* transaction) const { mdb_txn_abort(transaction); }
  void operator()(MDB_cursor* cursor) const { mdb_cursor_close(cursor); }
};

void need(int result) {
  if (result != 0) throw RunError(text("LMDB: ", mdb_strerror(result)));
}

template <class Thing, class Make>
std::unique_ptr<Thing, Close> made(const Make& make) {
  Thing* thing = nullptr;
  need(make(&thing));
  return std::unique_ptr<Thing, Close>(thing);
}

std::span<const std::byte> bytes_of(const MDB_val& value) {
  return {static_cast<const std::byte*>(value.mv_data), value.mv_size};
}

/// Opens a database: a folder with data.mdb, or a file. LMDB's memory map gets the size of the
/// file, since the size that the file states may be wrong.
std::unique_ptr<MDB_env, Close> open_environment(const std::string& path) {
  const bool folder = fs::is_directory(path);
  const fs::path file = folder ? fs::path(path) / "data.mdb" : fs::path(path);
  std::error_code failure;
  const uintmax_t bytes = fs::file_size(file, failure);
  if (failure) throw RunError(text("not an LMDB database: data.mdb: ", failure.message()));
  auto env = made<MDB_env>([](MDB_env** made_env) { return mdb_env_create(made_env); });
  need(mdb_env_set_mapsize(env.get(), bytes));
  const unsigned flags = MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS | (folder ? 0U : MDB_NOSUBDIR);
  need(mdb_env_open(env.get(), path.c_str(), flags, 0));
  return env;
}

void read_all(const std::string& path, const poseidon::readers::Begin& begin) {
  const auto env = open_environment(path);
  const auto transaction = made<MDB_txn>(
      [&](MDB_txn** txn) { return mdb_txn_begin(env.get(), nullptr, MDB_RDONLY, txn); });
  MDB_dbi database = 0;
  need(mdb_dbi_open(transaction.get(), nullptr, 0, &database));
  MDB_stat about{};
  need(mdb_stat(transaction.get(), database, &about));
  const auto cursor = made<MDB_cursor>(
      [&](MDB_cursor** cur) { return mdb_cursor_open(transaction.get(), database, cur); });
  auto& writer = begin(about.ms_entries);
  MDB_val key{}, value{};
  int result = mdb_cursor_get(cursor.get(), &key, &value, MDB_FIRST);
  for (; result == 0; result = mdb_cursor_get(cursor.get(), &key, &value, MDB_NEXT))
    writer.add(bytes_of(key), bytes_of(value));
  if (result != MDB_NOTFOUND) need(result);
}

}  // namespace

int main(int count, char** arguments) { poseidon::readers::run_reader(count, arguments, read_all); }
