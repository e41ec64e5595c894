#include "data/tar_archive.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/printable.h"
#include "data/gzip.h"
#include "data/sample.h"

namespace poseidon::data {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kMaxUnpacked = uint64_t{1} << 44;

/// Creates an unnamed file that is deleted when it is closed.
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

/// Returns a source that reads a file from its beginning to its current size.
ByteSource source_of(const Descriptor& file, const fs::path& path) {
  static constexpr uint64_t kPiece = uint64_t{1} << 18;
  const auto piece = std::make_shared<std::vector<std::byte>>();  // copies of the source share it
  return [&file, path, piece, at = uint64_t{0}, end = file_bytes(file, path)]() mutable {
    piece->resize(std::min(kPiece, end - at));
    read_at(file, at, *piece, path);
    at += piece->size();
    return std::span<const std::byte>(*piece);
  };
}

/// Rejects other archive and compression formats, recognized by their first bytes.
void refuse_other_archives(const Descriptor& file, const fs::path& path) {
  using namespace std::string_view_literals;
  constexpr std::pair<std::string_view, const char*> kOthers[] = {
      {"PK\3\4"sv, "a zip archive"},
      {"PK\5\6"sv, "a zip archive"},
      {"7z\xBC\xAF"sv, "a 7z archive"},
      {"Rar!"sv, "a rar archive"},
      {"BZh"sv, "compressed by bzip2"},
      {"\xFD"
       "7zXZ"sv,
       "compressed by xz"},
      {"\x28\xB5\x2F\xFD"sv, "compressed by zstd"}};
  std::array<char, 5> first{};
  const size_t bytes = std::min<uint64_t>(first.size(), file_bytes(file, path));
  read_at(file, 0, std::as_writable_bytes(std::span(first).first(bytes)), path);
  for (const auto& [magic, kind] : kOthers)
    if (std::string_view(first.data(), bytes).starts_with(magic))
      throw ConfigError(
          text(path.string(), ": is ", kind,
               ", which is not supported; expected a folder, a .tar or a .tar.gz: unpack "
               "it and pack the folder"));
}

/// Opens the archive `path`. If it is compressed, returns a temporary file with the decompressed
/// archive.
Descriptor open_unpacked(const fs::path& path, const fs::path& work_folder) {
  Descriptor archive = open_file(path);
  refuse_other_archives(archive, path);
  std::array<std::byte, 2> magic{};
  if (file_bytes(archive, path) >= magic.size()) read_at(archive, 0, magic, path);
  if (!is_gzip(magic)) return archive;
  Descriptor unpacked = make_unnamed_file(work_folder);
  inflate(source_of(archive, path), kMaxUnpacked, path.string(),
          [&](std::span<const std::byte> piece) { write_all(unpacked, piece, work_folder); });
  return unpacked;
}

}  // namespace

TarArchive::TarArchive(fs::path path, const fs::path& work_folder)
    : path_(std::move(path)), file_(open_unpacked(path_, work_folder)) {
  const ReadAt read = [&](uint64_t offset, std::span<std::byte> out) {
    read_at(file_, offset, out, path_);
  };
  entries_ = list_tar(file_bytes(file_, path_), read, path_.string());
}

void TarArchive::refuse_link(const TarEntry& entry) const {
  if (entry.kind == TarKind::kLink)
    throw ConfigError(text(path_.string(), ": ", printable(entry.name),
                           ": is a link, expected a file; create the archive with tar "
                           "--dereference --hard-dereference, which stores no links"));
}

void TarArchive::read(const TarEntry& entry, uint64_t most, std::vector<std::byte>& out) const {
  refuse_link(entry);
  if (entry.bytes > most)
    throw CorruptSample(text(path_.string(), ": ", printable(entry.name), ": expected at most ",
                             most, " bytes, got ", entry.bytes));
  out.resize(entry.bytes);
  read_at(file_, entry.offset, out, path_);
}

}  // namespace poseidon::data
