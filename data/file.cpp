#include "data/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace poseidon::data {

namespace fs = std::filesystem;

namespace {

constexpr size_t kWriteBuffer = size_t{1} << 20;

[[noreturn]] void fail_run(const fs::path& path, const char* what) {
  throw RunError(text(path.string(), ": ", what, ": ", std::strerror(errno)));
}

void write_fully(int file, uint64_t offset, std::span<const std::byte> bytes,
                 const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_run(path, "cannot be written");
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

Descriptor open_file(const fs::path& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0)
    throw ConfigError(text(path.string(), ": cannot be opened: ", std::strerror(errno)));
  struct stat about {};
  if (::fstat(file.number(), &about) != 0) fail_run(path, "cannot be examined");
  if (!S_ISREG(about.st_mode))
    throw ConfigError(text(path.string(), ": expected a file, got ",
                           S_ISDIR(about.st_mode) ? "a folder" : "something else"));
  return file;
}

uint64_t file_bytes(const Descriptor& file, const fs::path& path) {
  struct stat about {};
  if (::fstat(file.number(), &about) != 0) fail_run(path, "cannot be examined");
  return static_cast<uint64_t>(about.st_size);
}

void read_at(const Descriptor& file, uint64_t offset, std::span<std::byte> out,
             const fs::path& path) {
  while (!out.empty()) {
    const ssize_t count =
        ::pread(file.number(), out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_run(path, "cannot be read");
    if (count == 0)
      throw RunError(
          text(path.string(), ": ends at byte ", offset, ", expected ", out.size(), " more bytes"));
    out = out.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
}

void read_file(const fs::path& path, uint64_t most, std::vector<std::byte>& out) {
  const Descriptor file = open_file(path);
  const uint64_t bytes = file_bytes(file, path);
  if (bytes > most)
    throw RunError(text(path.string(), ": holds ", bytes, " bytes, expected at most ", most));
  out.resize(bytes);
  read_at(file, 0, out, path);
}

MappedFile::MappedFile(const fs::path& path) {
  const Descriptor file = open_file(path);
  const uint64_t bytes = file_bytes(file, path);
  if (bytes == 0) return;
  void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.number(), 0);
  if (memory == MAP_FAILED) fail_run(path, "cannot be mapped into memory");
  bytes_ = {static_cast<const std::byte*>(memory), bytes};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  temporary_ =
      path_.parent_path() / text(".", path_.filename().string(), ".", ::getpid(), ".partial");
  file_ = Descriptor(::open(temporary_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file_.number() < 0) fail_run(temporary_, "cannot be created");
  buffer_.reserve(kWriteBuffer);
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::flush() {
  write_fully(file_.number(), flushed_, buffer_, path_);
  flushed_ += buffer_.size();
  buffer_.clear();
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  written_ += bytes.size();
  if (buffer_.size() + bytes.size() > kWriteBuffer) flush();
  if (bytes.size() <= kWriteBuffer) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return;
  }
  write_fully(file_.number(), flushed_, bytes, path_);
  flushed_ += bytes.size();
}

void AtomicFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  check(offset + bytes.size() <= written_, "write_at beyond what was written");
  flush();
  write_fully(file_.number(), offset, bytes, path_);
}

void AtomicFile::commit() {
  flush();
  if (::fsync(file_.number()) != 0) fail_run(path_, "cannot be synced");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_run(path_, "cannot be given its name");
  temporary_.clear();
  sync_folder(path_.parent_path());
}

void sync_folder(const fs::path& folder) {
  const fs::path path = folder.empty() ? fs::path(".") : folder;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems cannot sync a folder; the file itself is safe by then.
  if (file.number() < 0 || (::fsync(file.number()) != 0 && errno != EINVAL))
    fail_run(path, "cannot be synced");
}

}  // namespace poseidon::data
