#pragma once

#include <leveldb/env.h>

#include <memory>

namespace poseidon::readers {

/// Creates a LevelDB environment that opens a database without changing it. LevelDB always writes
/// when it opens a database; these writes stay in memory. Existing files are not removed, renamed
/// or locked. Background work never runs, so LevelDB never compacts the database. Closing it would
/// wait for that work forever, so the caller must leave the database open.
std::unique_ptr<leveldb::Env> make_read_only_env();

}  // namespace poseidon::readers
