// The shipped documents must be valid in any clone: links and named files exist, and there is no
// local path or issue number.

#include <doctest/doctest.h>

#include <algorithm>
#include <regex>

#include "tests/house/source_files.h"
#include "tests/support/folders.h"

using poseidon::house::source_files;
using poseidon::house::SourceFile;

namespace {

namespace fs = std::filesystem;

bool in_project(const fs::path& path) {
  return fs::exists(fs::path(poseidon::test::source_folder()) / path);
}

/// All matches of the first group of `pattern` in `line`.
std::vector<std::string> groups(const std::string& line, const std::regex& pattern) {
  std::vector<std::string> found;
  for (std::sregex_iterator at(line.begin(), line.end(), pattern), end; at != end; ++at)
    found.push_back((*at)[1]);
  return found;
}

/// The columns of a line of UTF-8 text.
size_t columns(const std::string& line) {
  return static_cast<size_t>(
      std::ranges::count_if(line, [](char byte) { return (byte & 0xC0) != 0x80; }));
}

/// Rows of tables and comments cannot be wrapped.
bool is_prose(const std::string& line) {
  return !line.starts_with("|") && !line.starts_with("<!--");
}

}  // namespace

TEST_CASE("links in documents lead to files of the project") {
  static const std::regex kLink(R"(\]\(([^)#]+)(#[^)]*)?\))");
  for (const SourceFile& file : source_files("", {".md"}))
    for (size_t i = 0; i < file.lines.size(); ++i)
      for (const std::string& target : groups(file.lines[i], kLink)) {
        if (target.starts_with("http")) continue;
        CAPTURE(file.path);
        CAPTURE(i + 1);
        CAPTURE(target);
        CHECK(in_project(fs::path(file.path).parent_path() / target));
      }
}

TEST_CASE("files that documents name between backticks exist") {
  // A path of the project: starts with one of the folders or with ./, and contains no space.
  static const std::regex kPath(
      R"(`((?:\./)?(?:apps|bench|comm|configs|core|data|docs|exporter|importer|layers|net|readers|scripts|tests|third_party|trainer)/[A-Za-z0-9_./-]+)`)");
  for (const SourceFile& file : source_files("", {".md"}))
    for (size_t i = 0; i < file.lines.size(); ++i)
      for (const std::string& path : groups(file.lines[i], kPath)) {
        CAPTURE(file.path);
        CAPTURE(i + 1);
        CAPTURE(path);
        CHECK(in_project(path));
      }
}

TEST_CASE("prose in documents is wrapped at 120 columns") {
  for (const SourceFile& file : source_files("", {".md"})) {
    if (file.path == "docs/config.md") continue;  // poseidon-train writes it
    bool in_block = false;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      if (line.find("```") != std::string::npos) in_block = !in_block;
      if (in_block || !is_prose(line)) continue;
      CAPTURE(file.path);
      CAPTURE(i + 1);
      CHECK(columns(line) <= 120);
    }
  }
}

TEST_CASE("no text names a local folder or a ticket") {
  static const std::regex kLocal(R"((^|[^A-Za-z0-9_./}])(/(home|root|work)/|issue #?[0-9]))");
  for (const SourceFile& file :
       source_files("", {".md", ".h", ".cpp", ".cu", ".cuh", ".cmake", ".txt", ".json", ".py"})) {
    if (file.path.starts_with("tests/house/")) continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      // The pattern is slow, mainly with a sanitizer, so lines without these words are skipped
      // first.
      const std::string& line = file.lines[i];
      const auto holds = [&](const char* word) { return line.find(word) != std::string::npos; };
      if (!holds("issue") && !holds("/home/") && !holds("/root/") && !holds("/work/")) continue;
      CAPTURE(file.path);
      CAPTURE(i + 1);
      CHECK_FALSE(std::regex_search(line, kLocal));
    }
  }
}
