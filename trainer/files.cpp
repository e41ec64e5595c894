#include "trainer/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "core/digest.h"
#include "core/error.h"

namespace poseidon::trainer {

namespace fs = std::filesystem;

namespace {

/// `what` was tried with `path` and failed; errno says why.
[[noreturn]] void fail_with_errno(const fs::path& path, const char* what) {
  const int reason = errno;
  throw RunError(text(path.string(), ": cannot be ", what, ": ", std::strerror(reason)));
}

/// The number of bytes that could be written; less than all of them with errno set.
size_t write_all(int file, std::span<const std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::write(file, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

void sync_folder(const fs::path& file) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() < 0 || ::fsync(descriptor.get()) != 0) fail_with_errno(folder, "synced");
}

uint64_t size_of(int file, const fs::path& path) {
  struct stat status {};
  if (::fstat(file, &status) != 0) fail_with_errno(path, "looked at");
  if (S_ISDIR(status.st_mode)) {
    errno = EISDIR;
    fail_with_errno(path, "read");
  }
  return static_cast<uint64_t>(status.st_size);
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}
Descriptor::Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)), temporary_(path_) {
  temporary_ += ".tmp";
  file_ = Descriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                            S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH));
  if (file_.get() < 0) fail("written");
}

AtomicFile::~AtomicFile() {
  if (!committed_ && file_.get() >= 0) ::unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* doing) const { fail_with_errno(path_, doing); }

void AtomicFile::write(std::span<const std::byte> bytes) {
  if (write_all(file_.get(), bytes) != bytes.size()) fail("written");
  bytes_ += bytes.size();
  crc_ = crc32c(bytes, crc_);
}

void AtomicFile::write(std::string_view words) { write(std::as_bytes(std::span(words))); }

void AtomicFile::commit() {
  if (::fsync(file_.get()) != 0) fail("synced");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("put in place");
  committed_ = true;
  sync_folder(path_);
}

void write_file(const fs::path& path, std::string_view words) {
  AtomicFile file(path);
  file.write(words);
  file.commit();
}

AppendFile::AppendFile(fs::path path) : path_(std::move(path)) {
  file_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                            S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH));
  if (file_.get() < 0) fail_with_errno(path_, "written");
  size_ = size_of(file_.get(), path_);
}

void AppendFile::append(std::span<const std::byte> bytes) {
  if (write_all(file_.get(), bytes) != bytes.size()) {
    const int reason = errno;
    [[maybe_unused]] const int cut = ::ftruncate(file_.get(), static_cast<off_t>(size_));
    errno = reason;
    fail_with_errno(path_, "written");
  }
  size_ += bytes.size();
}

void AppendFile::append(std::string_view words) { append(std::as_bytes(std::span(words))); }

InputFile::InputFile(fs::path path) : path_(std::move(path)) {
  file_ = Descriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (file_.get() < 0) fail_with_errno(path_, "read");
  size_ = size_of(file_.get(), path_);
}

void InputFile::read(uint64_t offset, std::span<std::byte> bytes) const {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::pread(file_.get(), bytes.data() + done, bytes.size() - done,
                                  static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_with_errno(path_, "read");
    if (count == 0)
      throw RunError(text(path_.string(), ": ends at byte ", offset + done, ", expected ",
                          bytes.size() - done, " more"));
    done += static_cast<size_t>(count);
  }
}

uint32_t InputFile::crc(uint64_t offset, uint64_t length) const {
  std::vector<std::byte> piece(std::min<uint64_t>(length, 1 << 20));
  uint32_t crc = 0;
  while (length > 0) {
    const std::span bytes(piece.data(), std::min<uint64_t>(length, piece.size()));
    read(offset, bytes);
    crc = crc32c(bytes, crc);
    offset += bytes.size();
    length -= bytes.size();
  }
  return crc;
}

}  // namespace poseidon::trainer
