// Scripts that behave like a reader that crashes, hangs or writes wrong data.

#include "data/reader_process.h"

#include <doctest/doctest.h>

#include "data/database.h"
#include "tests/data/made_files.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::data;

namespace {

/// The error of opening a database whose reader program is this script.
std::string fault_of_script(const std::string& script,
                            std::chrono::milliseconds stall_limit = std::chrono::seconds(60)) {
  const made::Folder folder;
  const std::filesystem::path program = folder / "poseidon-read-lmdb";
  made::write(program, made::bytes_of("#!/bin/sh\nPATH=/usr/bin:/bin\n" + script + "\n"));
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  made::write(folder / "db", made::bytes_of("any"));
  const std::string error = error_of<RunError>([&] {
    open_database(DatabaseType::kLmdb, folder / "db",
                  {.programs = folder.text(), .stall_limit = stall_limit});
  });
  const std::string begin = (folder / "db").string() + ": ";
  return error.starts_with(begin) ? error.substr(begin.size()) : "no path: " + error;
}

}  // namespace

TEST_CASE("reader process: a crash or an early exit becomes a one-line error") {
  CHECK(fault_of_script("kill -SEGV $$") ==
        "damaged? poseidon-read-lmdb crashed by signal 11 (Segmentation fault)");
  CHECK(fault_of_script("echo 'free(): invalid pointer' >&2; kill -ABRT $$") ==
        "damaged? poseidon-read-lmdb crashed by signal 6 (Aborted): free(): invalid pointer");
  CHECK(fault_of_script("kill -XCPU $$") ==
        "damaged? poseidon-read-lmdb exceeded its CPU time limit and was stopped");
  CHECK(fault_of_script("exit 0") ==
        "damaged? poseidon-read-lmdb exited too early, with exit code 0");
  CHECK(fault_of_script("printf 'LMDB: a page is \\033[31mred\\n' >&2; exit 2") ==
        "LMDB: a page is \\x1b[31mred");
  CHECK(fault_of_script("echo this is no list of entries") ==
        "expected entries of a reader program, got other bytes");
}

TEST_CASE("reader process: a hanging reader is stopped, also after it closes its output") {
  CHECK(fault_of_script("exec sleep 100", std::chrono::milliseconds(200)) ==
        "poseidon-read-lmdb sent nothing for 0.2 s and was stopped");
  CHECK(fault_of_script("exec >&- 2>&-; exec sleep 100", std::chrono::milliseconds(200)) ==
        "poseidon-read-lmdb closed its output but did not exit");
}

TEST_CASE("reader process: a reader may write a lot to stderr before it exits") {
  CHECK(fault_of_script("yes error | head -c 300000 >&2; exit 3") ==
        "damaged? poseidon-read-lmdb exited too early, with exit code 3: error");
}

TEST_CASE("reader process: the error names the reader program that this build lacks") {
  const made::Folder folder;
  made::write(folder / "db", made::bytes_of("any"));
  CHECK(error_of<ConfigError>([&] {
          open_database(DatabaseType::kHdf5, folder / "db", {.programs = folder.text()});
        }) == (folder / "db").string() +
                  ": requires poseidon-read-hdf5, which this build lacks (docs/data.md)");
  CHECK(error_of<ConfigError>([&] {
          open_database(DatabaseType::kHdf5, folder / "none", {.programs = folder.text()});
        }) == (folder / "none").string() + ": no such file or folder");
}
