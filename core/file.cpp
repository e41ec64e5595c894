#include "core/file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/digest.h"
#include "core/memory.h"
#include "core/secret.h"

namespace poseidon {

namespace fs = std::filesystem;

namespace {

constexpr size_t kWriteBuffer = size_t{1} << 20;
constexpr mode_t kMode =
    S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH;  // before the umask
constexpr const char* kTemporary = ".tmp";                      // suffix of an unfinished file

/// The process limit that caused error `reason`, for messages; "" for other errors.
std::string limit_text(int reason) {
  if (reason != EFBIG && reason != EMFILE) return "";
  rlimit limit{};
  const bool known = ::getrlimit(reason == EFBIG ? RLIMIT_FSIZE : RLIMIT_NOFILE, &limit) == 0;
  if (!known || limit.rlim_cur == RLIM_INFINITY) return "";
  if (reason == EMFILE) return text(" (the limit, ulimit -n, is ", limit.rlim_cur, ")");
  return text(" (the limit, ulimit -f, is ", bytes_text(limit.rlim_cur), ")");
}

/// Throws RunError: `path` cannot be `what`, such as "read". errno has the reason.
[[noreturn]] void fail_run(const fs::path& path, const char* what) {
  const int reason = errno;
  throw RunError(
      text(path.string(), ": cannot be ", what, ": ", std::strerror(reason), limit_text(reason)));
}

/// Returns the number of bytes written. If it is less than `bytes.size()`, errno has the reason.
size_t write_at_most(int file, uint64_t offset, std::span<const std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count =
        ::pwrite(file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

void write_fully(int file, uint64_t offset, std::span<const std::byte> bytes,
                 const fs::path& path) {
  if (write_at_most(file, offset, bytes) != bytes.size()) fail_run(path, "written");
}

const char* kind_text(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

/// Returns a message if `path` is no regular file, else "". Opening a FIFO would wait for a writer.
std::string fault_of_kind(const fs::path& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0 || S_ISREG(about.st_mode)) return "";
  return text(path.string(), ": expected a file, got ", kind_text(about.st_mode));
}

/// Opens `path` for reading, or returns an empty Descriptor with the reason in errno.
Descriptor open_to_read(const fs::path& path) {
  return Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
}

/// Throws RunError if `path` is a special file, which commit() would replace. The system refuses to
/// replace a folder.
void refuse_special_file(const fs::path& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode))
    throw RunError(
        text(path.string(), ": expected a file to write, got ", kind_text(about.st_mode)));
}

fs::path temporary_of(const fs::path& path) {
  std::array<std::byte, 4> number;
  fill_with_random_bytes(number);
  return path.string() + "." + hexadecimal(number) + kTemporary;
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

Descriptor open_file(const fs::path& path) {
  if (const std::string fault = fault_of_kind(path); !fault.empty()) throw ConfigError(fault);
  Descriptor file = open_to_read(path);
  if (file.number() < 0) {
    const bool out_of_files = errno == EMFILE || errno == ENFILE;
    const std::string message =
        text(path.string(), ": cannot be opened: ", std::strerror(errno), limit_text(errno));
    if (out_of_files) throw OutOfFiles(message);
    throw ConfigError(message);
  }
  return file;
}

uint64_t file_bytes(const Descriptor& file, const fs::path& path) {
  struct stat about {};
  if (::fstat(file.number(), &about) != 0) fail_run(path, "examined");
  return static_cast<uint64_t>(about.st_size);
}

void read_at(const Descriptor& file, uint64_t offset, std::span<std::byte> out,
             const fs::path& path) {
  while (!out.empty()) {
    const ssize_t count =
        ::pread(file.number(), out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_run(path, "read");
    if (count == 0)
      throw RunError(text(path.string(), ": ends at byte ",
                          std::min(offset, file_bytes(file, path)), ", expected ", out.size(),
                          " bytes at byte ", offset));
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

InputFile::InputFile(fs::path path) : path_(std::move(path)) {
  if (const std::string fault = fault_of_kind(path_); !fault.empty()) throw RunError(fault);
  file_ = open_to_read(path_);
  if (file_.number() < 0) fail_run(path_, "read");
  size_ = file_bytes(file_, path_);
}

void InputFile::read(uint64_t offset, std::span<std::byte> bytes) const {
  read_at(file_, offset, bytes, path_);
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

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)), temporary_(temporary_of(path_)) {
  refuse_special_file(path_);
  file_ = Descriptor(::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kMode));
  if (file_.number() < 0) fail_run(path_, "written");
}

AtomicFile::~AtomicFile() {
  if (!committed_ && file_.number() >= 0) ::unlink(temporary_.c_str());
}

void AtomicFile::flush() {
  write_fully(file_.number(), flushed_, buffer_, path_);
  flushed_ += buffer_.size();
  buffer_.clear();
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  bytes_ += bytes.size();
  crc_ = crc32c(bytes, crc_);
  if (buffer_.size() + bytes.size() > kWriteBuffer) flush();
  if (bytes.size() <= kWriteBuffer) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return;
  }
  write_fully(file_.number(), flushed_, bytes, path_);
  flushed_ += bytes.size();
}

void AtomicFile::write(std::string_view contents) { write(as_bytes(contents)); }

void AtomicFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  flush();
  write_fully(file_.number(), offset, bytes, path_);
}

void AtomicFile::sync() {
  flush();
  // EINVAL: the file system does not support fsync.
  if (::fsync(file_.number()) != 0 && errno != EINVAL) fail_run(path_, "synced");
}

void AtomicFile::commit() {
  sync();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    fail_run(path_, "renamed to its final name");
  committed_ = true;
  sync_folder(path_.parent_path());
}

void write_file(const fs::path& path, std::string_view contents) {
  AtomicFile file(path);
  file.write(contents);
  file.commit();
}

void remove_temporary_files(const fs::path& folder) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().extension() == kTemporary) fs::remove(entry.path(), ignored);
}

AppendFile::AppendFile(fs::path path) : path_(std::move(path)) {
  file_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, kMode));
  if (file_.number() < 0) fail_run(path_, "written");
  size_ = file_bytes(file_, path_);
}

void AppendFile::append(std::span<const std::byte> bytes) {
  if (write_at_most(file_.number(), size_, bytes) != bytes.size()) {
    const int reason = errno;
    [[maybe_unused]] const int cut = ::ftruncate(file_.number(), static_cast<off_t>(size_));
    errno = reason;
    fail_run(path_, "written");
  }
  size_ += bytes.size();
}

void AppendFile::append(std::string_view contents) { append(as_bytes(contents)); }

void sync_folder(const fs::path& folder) {
  const fs::path path = folder.empty() ? fs::path(".") : folder;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // EINVAL: the file system cannot sync folders. The file itself is already synced.
  if (file.number() < 0 || (::fsync(file.number()) != 0 && errno != EINVAL))
    fail_run(path, "synced");
}

}  // namespace poseidon
