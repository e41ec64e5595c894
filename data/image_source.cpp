#include "data/image_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "data/gzip.h"
#include "data/image.h"
#include "data/image_folder.h"
#include "data/tar.h"

namespace poseidon::data {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kMostUnpacked = uint64_t{1} << 44;

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
      entries_.push_back({file.name, file.bytes, 0});
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

/// A file without a name that goes when it is closed.
Descriptor make_unnamed_file(const fs::path& folder) {
  std::string name = (folder / ".poseidon-unpack-XXXXXX").string();
  Descriptor file(::mkstemp(name.data()));
  if (file.number() < 0) throw RunError(text(name, ": cannot be created: ", std::strerror(errno)));
  ::unlink(name.c_str());
  return file;
}

void write_all(const Descriptor& file, std::span<const std::byte> bytes, const fs::path& folder) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file.number(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw RunError(text(folder.string(),
                          ": cannot unpack to a temporary file there: ", std::strerror(errno)));
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

/// `path` itself, or what it unpacks to.
Descriptor open_unpacked(const fs::path& path, const fs::path& work_folder) {
  Descriptor archive = open_file(path);
  std::array<std::byte, 2> magic{};
  if (file_bytes(archive, path) >= magic.size()) read_at(archive, 0, magic, path);
  if (!is_gzip(magic)) return archive;
  const MappedFile packed(path);
  Descriptor unpacked = make_unnamed_file(work_folder);
  inflate(packed.bytes(), kMostUnpacked, path.string(),
          [&](std::span<const std::byte> piece) { write_all(unpacked, piece, work_folder); });
  return unpacked;
}

class TarSource final : public ImageSource {
 public:
  TarSource(const fs::path& path, const std::string& prefix, const fs::path& work_folder)
      : path_(path), archive_(open_unpacked(path, work_folder)) {
    const ReadAt read = [&](uint64_t offset, std::span<std::byte> out) {
      read_at(archive_, offset, out, path_);
    };
    std::set<std::string> classes;
    for (const TarEntry& entry : list_tar(file_bytes(archive_, path), read, path.string()))
      if (const auto name = name_below(entry.name, prefix)) take(entry, *name, classes);
    classes_.assign(classes.begin(), classes.end());
    sort_by_name(entries_);
  }
  const std::vector<Entry>& entries() const override { return entries_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  void read(const Entry& entry, std::vector<std::byte>& out) const override {
    if (entry.bytes > kMostEncodedBytes)
      throw RunError(text(path_.string(), ": ", entry.name, ": expected an image of at most ",
                          kMostEncodedBytes, " bytes, got ", entry.bytes));
    out.resize(entry.bytes);
    read_at(archive_, entry.place, out, path_);
  }

 private:
  /// `name` is the entry's, below the prefix.
  void take(const TarEntry& entry, const std::string& name, std::set<std::string>& classes) {
    const bool inside = name.find('/') != std::string::npos;
    if (inside || entry.kind == TarKind::kFolder) classes.insert(class_of(name));
    if (!is_image(name) || entry.kind == TarKind::kFolder) return;
    if (entry.kind == TarKind::kLink)
      throw ConfigError(text(path_.string(), ": ", entry.name,
                             ": is a link, expected a file; tar --dereference --hard-dereference "
                             "makes archives without links"));
    entries_.push_back({name, entry.bytes, entry.offset});
  }

  fs::path path_;
  Descriptor archive_;
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
