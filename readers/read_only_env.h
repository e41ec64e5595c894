#pragma once

#include <leveldb/env.h>

#include <memory>

namespace poseidon::readers {

/// Creates a LevelDB environment that opens a database without changing it. LevelDB always writes
/// when it opens a database; the environment stores these writes in memory. It does not remove,
/// rename or lock existing files. It never runs background work, so LevelDB never compacts the
/// database. The caller must not close the database: closing it waits for background work, forever.
std::unique_ptr<leveldb::Env> make_read_only_env();

}  // namespace poseidon::readers
