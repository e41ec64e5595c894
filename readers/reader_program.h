#pragma once

#include <functional>
#include <string>

#include "data/entry_pipe.h"

/// Programs that read a database with a library that was not made for damaged files. Each has one
/// library, no right to write, limits of memory and time, and a pipe to poseidon-data.
namespace poseidon::readers {

/// Begins to write, with the number of entries, or 0 where only the end tells it.
using Begin = std::function<data::EntryWriter&(uint64_t count)>;

/// Gives what is in the file or folder `path` to the writer that `begin` makes, in the order of
/// keys. Throws ConfigError or RunError, without the path.
using ReadAll = std::function<void(const std::string& path, const Begin& begin)>;

/// The whole of such a program. It does not return, since libraries have something to write where
/// they end in order.
[[noreturn]] void run_reader(int count, char** arguments, const ReadAll& read_all);

}  // namespace poseidon::readers
