#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/folders.h"

/// Reads the project's files, for tests of their text.
namespace poseidon::house {

struct SourceFile {
  std::string path;  ///< from the project's root
  std::vector<std::string> lines;
};

inline SourceFile read_source(const std::string& path) {
  SourceFile file{.path = path, .lines = {}};
  std::ifstream in(std::filesystem::path(test::source_folder()) / path);
  for (std::string line; std::getline(in, line);) file.lines.push_back(line);
  return file;
}

inline bool has_extension(const std::string& path, const std::vector<std::string>& extensions) {
  return std::any_of(extensions.begin(), extensions.end(),
                     [&](const std::string& extension) { return path.ends_with(extension); });
}

/// All files below `folder` ("" for the root) with one of `extensions`, in alphabetical order,
/// without build trees, run directories and hidden folders.
inline std::vector<SourceFile> source_files(const std::string& folder,
                                            const std::vector<std::string>& extensions) {
  namespace fs = std::filesystem;
  const fs::path root = test::source_folder();
  std::vector<std::string> paths;
  if (!fs::is_directory(root / folder)) return {};
  for (auto at = fs::recursive_directory_iterator(root / folder); at != fs::end(at); ++at) {
    const std::string name = at->path().filename();
    const std::string path = fs::relative(at->path(), root);
    const bool made = path.starts_with("build") || path == "runs" || path == "data-cache";
    if (at->is_directory() && (made || name.starts_with("."))) at.disable_recursion_pending();
    if (at->is_regular_file() && has_extension(path, extensions)) paths.push_back(path);
  }
  std::sort(paths.begin(), paths.end());
  std::vector<SourceFile> files;
  for (const std::string& path : paths) files.push_back(read_source(path));
  return files;
}

}  // namespace poseidon::house
