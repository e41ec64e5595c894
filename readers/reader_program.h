#pragma once

#include <functional>
#include <string>

#include "data/entry_pipe.h"

/// Programs that read a database with a library that is unsafe on damaged files. Each program
/// uses one library, cannot write files, has limits of memory and time, and sends its output to
/// poseidon-data over a pipe.
namespace poseidon::readers {

/// Starts the output, and returns the writer of its entries. `count` is the number of entries, or 0
/// if it is unknown before the end.
using Begin = std::function<data::EntryWriter&(uint64_t count)>;

/// Passes the entries of the file or folder `path` to the writer that `begin` returns, in key
/// order. Throws ConfigError or RunError without the path in the message.
using ReadAll = std::function<void(const std::string& path, const Begin& begin)>;

/// The main function of a reader program. Does not return: it exits without cleanup, since some
/// libraries write files at a normal exit.
[[noreturn]] void run_reader(int count, char** arguments, const ReadAll& read_all);

}  // namespace poseidon::readers
