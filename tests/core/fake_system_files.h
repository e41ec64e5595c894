#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace poseidon {

/// A folder that replaces the root folder of a system. It contains the files from which a process
/// reads its limits. The destructor removes it.
class FakeSystemFiles {
 public:
  /// `groups`: the content of /proc/self/cgroup.
  explicit FakeSystemFiles(const std::string& groups) {
    std::string name = (std::filesystem::temp_directory_path() / "poseidon-system-XXXXXX").string();
    root_ = ::mkdtemp(name.data());
    add("proc/self/cgroup", groups);
  }
  ~FakeSystemFiles() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  FakeSystemFiles(const FakeSystemFiles&) = delete;
  FakeSystemFiles& operator=(const FakeSystemFiles&) = delete;

  FakeSystemFiles& add(const std::string& file, const std::string& content) {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << content;
    return *this;
  }
  const std::filesystem::path& root() const { return root_; }

 private:
  std::filesystem::path root_;
};

}  // namespace poseidon
