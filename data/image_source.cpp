#include "data/image_source.h"

#include <algorithm>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "data/image.h"
#include "data/image_folder.h"
#include "data/tar_archive.h"

namespace poseidon::data {

namespace fs = std::filesystem;

namespace {

/// "./train//cat/1.jpg" as "train/cat/1.jpg".
std::string plain_path(const std::string& path) {
  std::string out;
  for (const fs::path& part : fs::path(path)) {
    const std::string name = part.string();
    if (name.empty() || name == "." || name == "/") continue;
    out += (out.empty() ? "" : "/") + name;
  }
  return out;
}

/// The name below `prefix`; none for what lies elsewhere or in a hidden folder there.
std::optional<std::string> name_below(const std::string& path, const std::string& prefix) {
  const std::string plain = plain_path(path);
  if (!prefix.empty() && !plain.starts_with(prefix + "/")) return std::nullopt;
  std::string name = prefix.empty() ? plain : plain.substr(prefix.size() + 1);
  if (name.empty() || name.starts_with(".")) return std::nullopt;
  return name;
}

/// The class folder of a name below the prefix.
std::string class_of(const std::string& name) { return name.substr(0, name.find('/')); }

/// Whether it is an image in or below a class folder.
bool is_image(const std::string& name) {
  const size_t slash = name.rfind('/');
  return slash != std::string::npos && is_image_name(std::string_view(name).substr(slash + 1));
}

void sort_by_name(std::vector<ImageSource::Entry>& entries) {
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
}

/// `classes` are sorted.
void label_entries(std::vector<ImageSource::Entry>& entries,
                   const std::vector<std::string>& classes) {
  for (ImageSource::Entry& entry : entries)
    entry.label = static_cast<int32_t>(std::ranges::lower_bound(classes, class_of(entry.name)) -
                                       classes.begin());
}

void check_not_empty(const std::vector<ImageSource::Entry>& entries, const fs::path& path,
                     const std::string& prefix) {
  if (!entries.empty()) return;
  throw ConfigError(text(path.string(), ": expected images as ", prefix.empty() ? "" : prefix + "/",
                         "<class>/<file>.jpg (or .png, .bmp, .ppm), got none",
                         prefix.empty() ? "" : "; is --prefix right?"));
}

class FolderSource final : public ImageSource {
 public:
  FolderSource(const fs::path& folder, const std::string& prefix) : folder_(folder / prefix) {
    ImageListing listing = list_images(folder_);
    for (const ImageListing::File& file : listing.files)
      entries_.push_back({.name = file.name, .label = file.label});
    sort_by_name(entries_);
    classes_ = std::move(listing.classes);
  }
  const std::vector<Entry>& entries() const override { return entries_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  void read(const Entry& entry, std::vector<std::byte>& out) const override {
    read_file(folder_ / entry.name, kMostEncodedBytes, out);
  }

 private:
  fs::path folder_;
  std::vector<Entry> entries_;
  std::vector<std::string> classes_;
};

class TarSource final : public ImageSource {
 public:
  TarSource(const fs::path& path, const std::string& prefix, const fs::path& work_folder)
      : archive_(path, work_folder) {
    std::set<std::string> classes;
    for (const TarEntry& entry : archive_.entries())
      if (const auto name = name_below(entry.name, prefix)) take(entry, *name, classes);
    classes_.assign(classes.begin(), classes.end());
    sort_by_name(entries_);
    label_entries(entries_, classes_);
  }
  const std::vector<Entry>& entries() const override { return entries_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  void read(const Entry& entry, std::vector<std::byte>& out) const override {
    archive_.read(archive_.entries()[entry.place], kMostEncodedBytes, out);
  }

 private:
  /// `name` is the entry's, below the prefix.
  void take(const TarEntry& entry, const std::string& name, std::set<std::string>& classes) {
    const bool inside = name.find('/') != std::string::npos;
    if (inside || entry.kind == TarKind::kFolder) classes.insert(class_of(name));
    if (!is_image(name) || entry.kind == TarKind::kFolder) return;
    archive_.refuse_link(entry);
    const size_t index = static_cast<size_t>(&entry - archive_.entries().data());
    entries_.push_back({.name = name, .place = index});
  }

  TarArchive archive_;
  std::vector<Entry> entries_;
  std::vector<std::string> classes_;
};

}  // namespace

std::unique_ptr<ImageSource> open_image_source(const fs::path& path, const std::string& prefix,
                                               const fs::path& work_folder) {
  const std::string plain = plain_path(prefix);
  std::error_code failure;
  std::unique_ptr<ImageSource> source;
  if (fs::is_directory(path, failure))
    source = std::make_unique<FolderSource>(path, plain);
  else
    source = std::make_unique<TarSource>(path, plain, work_folder);
  check_not_empty(source->entries(), path, plain);
  return source;
}

}  // namespace poseidon::data
