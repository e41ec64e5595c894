#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/file.h"

namespace poseidon::apps {

/// Files that other processes cannot open: open() blocks, as on a file server that does not answer.
/// This process holds leases on them. The system ends a lease 45 s after the first open()
/// (fs.lease-break-time).
class UnansweredFiles {
 public:
  /// Replaces `file` by a copy with a lease. The rename is atomic: the name always exists.
  void add(const std::filesystem::path& file) {
    const std::filesystem::path beside = file.string() + ".beside";
    std::filesystem::copy_file(file, beside);
    files_.emplace_back(::open(beside.c_str(), O_RDWR | O_CLOEXEC));
    const int number = files_.back().number();
    // By default the end of a lease is announced by SIGIO, which would end this process.
    REQUIRE(::fcntl(number, F_SETSIG, SIGURG) == 0);
    REQUIRE(::fcntl(number, F_SETLEASE, F_WRLCK) == 0);
    std::filesystem::rename(beside, file);
  }
  /// Replaces all files in `folder` and its subfolders.
  void add_all(const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> files;
    for (const auto& each : std::filesystem::recursive_directory_iterator(folder))
      if (each.is_regular_file()) files.push_back(each.path());
    for (const std::filesystem::path& file : files) add(file);
  }

 private:
  std::vector<Descriptor> files_;
};

}  // namespace poseidon::apps
