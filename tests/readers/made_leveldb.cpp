#include <leveldb/db.h>
#include <leveldb/options.h>

#include <memory>

#include "core/error.h"
#include "tests/readers/made_database.h"

namespace poseidon::readers::made {

const data::DatabaseType kType = data::DatabaseType::kLevelDb;

void make_database(const std::filesystem::path& path, const std::vector<Entry>& entries) {
  leveldb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = 1;  // forces tables on disk, in addition to the log
  leveldb::DB* opened = nullptr;
  const leveldb::Status status = leveldb::DB::Open(options, path.string(), &opened);
  check(status.ok(), status.ToString().c_str());
  const std::unique_ptr<leveldb::DB> database(opened);
  for (const Entry& entry : entries) {
    std::vector<std::byte> datum = datum_of(entry);
    const leveldb::Slice value(reinterpret_cast<const char*>(datum.data()), datum.size());
    check(database->Put({}, entry.key, value).ok(), "LevelDB takes no entry");
    if (&entry - entries.data() == static_cast<ptrdiff_t>(entries.size() / 2))
      database->CompactRange(nullptr, nullptr);
  }
}

}  // namespace poseidon::readers::made
