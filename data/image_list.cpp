#include "data/image_list.h"

#include <algorithm>

#include "core/error.h"
#include "core/file.h"
#include "core/printable.h"
#include "data/image.h"
#include "data/sample_reading.h"
#include "data/sample_stream.h"

namespace poseidon::data {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kMaxListBytes = uint64_t{1} << 32;
constexpr std::string_view kLineBlanks = " \t\r";

/// Calls `take(line, number)` for each line that is not blank. `line` has no leading or trailing
/// blanks. `number` counts all lines from 1.
template <class Take>
void for_each_line(std::string_view contents, const Take& take) {
  contents = without_byte_order_mark(contents);
  for (int64_t number = 1; !contents.empty(); ++number) {
    const size_t end = std::min(contents.find('\n'), contents.size());
    const std::string_view line = contents.substr(0, end);
    contents.remove_prefix(std::min(end + 1, contents.size()));
    const size_t from = line.find_first_not_of(kLineBlanks);
    if (from == std::string_view::npos) continue;
    take(line.substr(from, line.find_last_not_of(kLineBlanks) + 1 - from), number);
  }
}

ListedImage listed_image(std::string_view line, const std::string& file, int64_t number) {
  const std::string place = text(file, ":", number);
  const size_t blank = line.find_last_of(kLineBlanks);
  const size_t path_end =
      blank == std::string_view::npos ? blank : line.find_last_not_of(kLineBlanks, blank);
  if (path_end == std::string_view::npos)
    throw RunError(
        text(place, ": expected \"PATH LABEL\", got \"", printable(line.substr(0, 200)), "\""));
  return {.path = std::string(line.substr(0, path_end + 1)),
          .label = parse_label(line.substr(blank + 1), place),
          .line = number};
}

class ListSource final : public ImageSource {
 public:
  ListSource(const fs::path& path, fs::path root) : path_(path), root_(std::move(root)) {
    for (ListedImage& image : parse_image_list(read_list_file(path), path.string()))
      entries_.push_back({.name = std::move(image.path),
                          .label = image.label,
                          .place = static_cast<uint64_t>(image.line)});
    if (entries_.empty())
      throw ConfigError(text(path.string(), ": expected lines \"PATH LABEL\", got none"));
  }
  const std::vector<Entry>& entries() const override { return entries_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  const IgnoredFiles& ignored() const override { return ignored_; }
  void read(const Entry& entry, std::vector<std::byte>& out) const override {
    read_for_sample([&] { return text(path_.string(), ":", entry.place, ": "); },
                    [&] { read_file(root_ / entry.name, kMaxEncodedBytes, out); });
  }

 private:
  fs::path path_, root_;
  std::vector<Entry> entries_;
  std::vector<std::string> classes_;
  IgnoredFiles ignored_;
};

}  // namespace

std::vector<ListedImage> parse_image_list(std::string_view contents, const std::string& file) {
  std::vector<ListedImage> images;
  for_each_line(contents, [&](std::string_view line, int64_t number) {
    images.push_back(listed_image(line, file, number));
  });
  return images;
}

std::vector<std::string> list_lines(std::string_view contents) {
  std::vector<std::string> lines;
  for_each_line(contents, [&](std::string_view line, int64_t) { lines.emplace_back(line); });
  return lines;
}

std::string read_list_file(const fs::path& path) {
  std::vector<std::byte> bytes;
  read_file(path, kMaxListBytes, bytes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::unique_ptr<ImageSource> open_image_list(const fs::path& path, const fs::path& root) {
  return std::make_unique<ListSource>(path, root);
}

}  // namespace poseidon::data
