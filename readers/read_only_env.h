#pragma once

#include <leveldb/env.h>

#include <memory>

namespace poseidon::readers {

/// A system for LevelDB on which it can open a database without changing it: LevelDB always writes
/// when it opens one. What it writes stays in memory, and nothing that is there is removed, renamed
/// or locked. It runs no work in the background, so no database is ever compacted, and one that is
/// closed would wait for that forever: it has to be left open.
std::unique_ptr<leveldb::Env> make_read_only_env();

}  // namespace poseidon::readers
