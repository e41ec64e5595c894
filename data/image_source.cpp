#include "data/image_source.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "core/error.h"
#include "core/printable.h"
#include "data/image.h"
#include "data/image_folder.h"
#include "data/sample_reading.h"
#include "data/tar_archive.h"

namespace poseidon::data {

namespace fs = std::filesystem;

namespace {

/// Normalizes a path: "./train//cat/1.jpg" becomes "train/cat/1.jpg".
std::string plain_path(const std::string& path) {
  std::string out;
  for (const fs::path& part : fs::path(path)) {
    const std::string name = part.string();
    if (name.empty() || name == "." || name == "/") continue;
    out += (out.empty() ? "" : "/") + name;
  }
  return out;
}

/// Returns the path relative to the folder `prefix`, or nullopt if the path is not inside this
/// folder.
std::optional<std::string> name_below(const std::string& path, const std::string& prefix) {
  const std::string plain = plain_path(path);
  if (!prefix.empty() && !plain.starts_with(prefix + "/")) return std::nullopt;
  std::string name = prefix.empty() ? plain : plain.substr(prefix.size() + 1);
  if (name.empty()) return std::nullopt;
  return name;
}

/// Returns the class folder, which is the first component of `name`. `name` is relative to the
/// prefix.
std::string class_of(const std::string& name) { return name.substr(0, name.find('/')); }

std::string join(const std::set<std::string>& names) {
  constexpr size_t kMax = 10;
  std::string out;
  size_t count = 0;
  for (const std::string& name : names)
    if (++count <= kMax) out += text(out.empty() ? "" : ", ", "\"", printable(name), "\"");
  if (count > kMax) out += text(" and ", count - kMax, " more");
  return out;
}

void sort_by_name(std::vector<ImageSource::Entry>& entries) {
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
}

/// Sets the label of each entry to the index of its class in `classes`, which must be sorted.
void label_entries(std::vector<ImageSource::Entry>& entries,
                   const std::vector<std::string>& classes) {
  for (ImageSource::Entry& entry : entries)
    entry.label = static_cast<int32_t>(std::ranges::lower_bound(classes, class_of(entry.name)) -
                                       classes.begin());
}

void check_not_empty(const ImageSource& source, const fs::path& path, const std::string& prefix) {
  if (!source.entries().empty()) return;
  std::string hint;
  for (const std::string& remark : source.ignored().remarks()) hint += "; " + remark;
  throw ConfigError(text(path.string(), ": expected images as ", prefix.empty() ? "" : prefix + "/",
                         "<class>/<file>.jpg (or .png, .bmp, .ppm), got none", hint));
}

/// Throws ConfigError: the folder `prefix` does not exist. The message lists `folders`, the
/// subfolders of the deepest existing folder `place` of the prefix.
[[noreturn]] void refuse_prefix(const fs::path& path, const std::string& prefix,
                                const std::string& place, const std::set<std::string>& folders) {
  throw ConfigError(text(path.string(), ": --prefix: there is no folder \"", printable(prefix),
                         "\"; ", place.empty() ? "the input" : "\"" + place + "\"",
                         folders.empty() ? " has no folders" : " has " + join(folders)));
}

void check_prefix(const fs::path& folder, const std::string& prefix) {
  fs::path place;
  std::error_code ignored;
  for (const fs::path& part : fs::path(prefix)) {
    if (fs::is_directory(folder / place / part, ignored)) {
      place /= part;
      continue;
    }
    std::set<std::string> folders;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder / place, ignored))
      if (entry.is_directory(ignored)) folders.insert(entry.path().filename().string());
    refuse_prefix(folder, prefix, place.string(), folders);
  }
}

class FolderSource final : public ImageSource {
 public:
  FolderSource(const fs::path& folder, const std::string& prefix) : folder_(folder / prefix) {
    ImageListing listing = list_images(folder_);
    for (const ImageListing::File& file : listing.files)
      entries_.push_back({.name = file.name, .label = file.label});
    sort_by_name(entries_);
    classes_ = std::move(listing.classes);
    ignored_ = std::move(listing.ignored);
  }
  const std::vector<Entry>& entries() const override { return entries_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  const IgnoredFiles& ignored() const override { return ignored_; }
  void read(const Entry& entry, std::vector<std::byte>& out) const override {
    read_image_file(folder_ / entry.name, out);
  }

 private:
  fs::path folder_;
  std::vector<Entry> entries_;
  std::vector<std::string> classes_;
  IgnoredFiles ignored_;
};

class TarSource final : public ImageSource {
 public:
  TarSource(const fs::path& path, const std::string& prefix, const fs::path& work_folder)
      : archive_(path, work_folder) {
    std::set<std::string> classes;
    bool any = prefix.empty();
    for (const TarEntry& entry : archive_.entries()) {
      const auto name = name_below(entry.name, prefix);
      any = any || name || plain_path(entry.name) == prefix;
      if (name && !is_ignored(entry, *name)) take(entry, *name, classes);
    }
    if (!any) refuse_prefix(path, prefix, "", top_folders());
    classes_.assign(classes.begin(), classes.end());
    sort_by_name(entries_);
    label_entries(entries_, classes_);
  }
  const std::vector<Entry>& entries() const override { return entries_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  const IgnoredFiles& ignored() const override { return ignored_; }
  void read(const Entry& entry, std::vector<std::byte>& out) const override {
    archive_.read(archive_.entries()[entry.place], kMaxEncodedBytes, out);
  }

 private:
  /// Returns true if a component of `name` is hidden or a system folder. `name` is relative to the
  /// prefix.
  bool is_ignored(const TarEntry& entry, const std::string& name) {
    for (size_t from = 0, end; from < name.size(); from = end + 1) {
      end = std::min(name.find('/', from), name.size());
      const auto part = std::string_view(name).substr(from, end - from);
      if (is_hidden(part)) return true;
      const bool folder = end < name.size() || entry.kind == TarKind::kFolder;
      if (!folder || !is_system_folder(part)) continue;
      ignored_.add_system_folder(name.substr(0, end));
      return true;
    }
    return false;
  }

  /// Records the class folder of the entry, if any. Adds an image to the samples, or to the ignored
  /// files if its format is unsupported or it is outside of class folders. `name` is relative to
  /// the prefix.
  void take(const TarEntry& entry, const std::string& name, std::set<std::string>& classes) {
    const bool inside = name.find('/') != std::string::npos;
    if (inside || entry.kind == TarKind::kFolder) {
      check_class_name(class_of(name), text(archive_.path().string(), ": ", class_of(name)));
      classes.insert(class_of(name));
    }
    if (entry.kind == TarKind::kFolder) return;
    const std::string_view file = std::string_view(name).substr(name.rfind('/') + 1);
    const FileKind kind = file_kind(file);
    if (!inside) {
      if (kind == FileKind::kImage) ignored_.add_outside_image();
    } else if (kind == FileKind::kOtherImage) {
      ignored_.add_other_image(class_of(name), file);
    } else if (kind == FileKind::kImage) {
      archive_.refuse_link(entry);
      const size_t index = static_cast<size_t>(&entry - archive_.entries().data());
      entries_.push_back({.name = name, .place = index});
    }
  }

  std::set<std::string> top_folders() const {
    std::set<std::string> folders;
    for (const TarEntry& entry : archive_.entries()) {
      const std::string name = plain_path(entry.name);
      if (name.find('/') != std::string::npos) folders.insert(class_of(name));
    }
    return folders;
  }

  TarArchive archive_;
  std::vector<Entry> entries_;
  std::vector<std::string> classes_;
  IgnoredFiles ignored_;
};

}  // namespace

std::unique_ptr<ImageSource> open_image_source(const fs::path& path, const std::string& prefix,
                                               const fs::path& work_folder) {
  const std::string plain = plain_path(prefix);
  std::error_code failure;
  std::unique_ptr<ImageSource> source;
  if (fs::is_directory(path, failure)) {
    check_prefix(path, plain);
    source = std::make_unique<FolderSource>(path, plain);
  } else {
    source = std::make_unique<TarSource>(path, plain, work_folder);
  }
  check_not_empty(*source, path, plain);
  return source;
}

}  // namespace poseidon::data
