#include <lmdb.h>

#include "core/error.h"
#include "tests/readers/made_database.h"

namespace poseidon::readers::made {

namespace {

void need(int result) { check(result == 0, mdb_strerror(result)); }

MDB_val value_of(const void* data, size_t size) { return {size, const_cast<void*>(data)}; }

}  // namespace

const data::DatabaseType kType = data::DatabaseType::kLmdb;

void make_database(const std::filesystem::path& path, const std::vector<Entry>& entries) {
  std::filesystem::create_directories(path);
  MDB_env* env = nullptr;
  need(mdb_env_create(&env));
  need(mdb_env_set_mapsize(env, size_t{1} << 30));
  need(mdb_env_open(env, path.c_str(), MDB_NOSYNC, 0600));
  MDB_txn* transaction = nullptr;
  need(mdb_txn_begin(env, nullptr, 0, &transaction));
  MDB_dbi database = 0;
  need(mdb_dbi_open(transaction, nullptr, 0, &database));
  for (const Entry& entry : entries) {
    const std::vector<std::byte> datum = datum_of(entry);
    MDB_val key = value_of(entry.key.data(), entry.key.size());
    MDB_val value = value_of(datum.data(), datum.size());
    need(mdb_put(transaction, database, &key, &value, 0));
  }
  need(mdb_txn_commit(transaction));
  mdb_env_close(env);
}

}  // namespace poseidon::readers::made
