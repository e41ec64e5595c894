#include "data/image_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

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

/// The name below `prefix`, when the path is an image in a class folder there.
std::optional<std::string> name_below(const std::string& path, const std::string& prefix) {
  const std::string plain = plain_path(path);
  if (!prefix.empty() && !plain.starts_with(prefix + "/")) return std::nullopt;
  std::string name = prefix.empty() ? plain : plain.substr(prefix.size() + 1);
  const size_t slash = name.rfind('/');
  if (slash == std::string::npos || name.starts_with(".")) return std::nullopt;
  if (!is_image_name(std::string_view(name).substr(slash + 1))) return std::nullopt;
  return name;
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
    std::error_code failure;
    for (fs::recursive_directory_iterator at(folder_, failure), end; at != end && !failure;
         at.increment(failure)) {
      const std::string relative = at->path().lexically_relative(folder_).generic_string();
      const auto name = name_below(relative, "");
      if (name && at->is_regular_file()) entries_.push_back({*name, at->file_size(), 0});
    }
    if (failure)
      throw ConfigError(text(folder_.string(), ": cannot be listed: ", failure.message()));
    sort_by_name(entries_);
  }
  const std::vector<Entry>& entries() const override { return entries_; }
  void read(const Entry& entry, std::vector<std::byte>& out) const override {
    read_file(folder_ / entry.name, kMostEncodedBytes, out);
  }

 private:
  fs::path folder_;
  std::vector<Entry> entries_;
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
    for (const TarEntry& entry : list_tar(file_bytes(archive_, path), read, path.string()))
      if (const auto name = name_below(entry.name, prefix))
        entries_.push_back({*name, entry.bytes, entry.offset});
    sort_by_name(entries_);
  }
  const std::vector<Entry>& entries() const override { return entries_; }
  void read(const Entry& entry, std::vector<std::byte>& out) const override {
    if (entry.bytes > kMostEncodedBytes)
      throw RunError(text(path_.string(), ": ", entry.name, ": expected an image of at most ",
                          kMostEncodedBytes, " bytes, got ", entry.bytes));
    out.resize(entry.bytes);
    read_at(archive_, entry.place, out, path_);
  }

 private:
  fs::path path_;
  Descriptor archive_;
  std::vector<Entry> entries_;
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
