#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"

/// Functions and classes to read and write files: at any offset, by appending, or atomically. Files
/// are never mapped into memory: if another process shortens a mapped file, reading it ends this
/// process with a signal. A failed operation throws RunError "PATH: cannot be ...: reason", unless
/// the comment of the function names another error.
namespace poseidon {

/// Owns a file descriptor, and closes it when destroyed. Move-only.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  int number() const { return number_; }

 private:
  int number_ = -1;
};

/// A file cannot be opened because the process or the system has too many open files.
class OutOfFiles : public RunError {
 public:
  using RunError::RunError;
};

/// Opens a regular file for reading. Throws OutOfFiles, or ConfigError for all other reasons, such
/// as a missing file, a missing permission, a folder or a FIFO. Never waits for a FIFO's writer.
Descriptor open_file(const std::filesystem::path& path);
uint64_t file_bytes(const Descriptor& file, const std::filesystem::path& path);

/// Reads exactly `out.size()` bytes at `offset`. Throws RunError with `path` if the file is too
/// short.
void read_at(const Descriptor& file, uint64_t offset, std::span<std::byte> out,
             const std::filesystem::path& path);

/// Reads a complete file into `out` and reuses the memory of `out`. Throws the errors of
/// open_file(), and RunError if the file has more than `most` bytes or cannot be read.
void read_file(const std::filesystem::path& path, uint64_t most, std::vector<std::byte>& out);

/// A regular file that a run reads at any offset. All errors are RunErrors.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path);
  uint64_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }
  /// Fills `bytes` with the bytes of the file that begin at `offset`. Throws RunError if the file
  /// has fewer bytes.
  void read(uint64_t offset, std::span<std::byte> bytes) const;
  /// The CRC-32C of the `length` bytes that begin at `offset`. Throws as read().
  uint32_t crc(uint64_t offset, uint64_t length) const;

 private:
  std::filesystem::path path_;
  Descriptor file_;
  uint64_t size_ = 0;
};

/// A file that is written atomically. write() stores the bytes in "<path>.<8 random hexadecimal
/// digits>.tmp". commit() syncs this temporary file, renames it to `path`, and syncs the folder.
/// Without commit(), the destructor removes the temporary file. Processes that write the same path
/// at the same time use separate temporary files; the last commit() wins. The constructor throws
/// RunError if `path` is a special file, such as a device.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view contents);
  /// Writes at any offset, also over earlier bytes or beyond the end. bytes() and crc() do not
  /// change.
  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  /// Returns after all bytes written so far are on disk.
  void sync();
  void commit();

  const std::filesystem::path& path() const { return path_; }
  /// The temporary file. It contains all written bytes only after sync() or write_at(). commit()
  /// renames it.
  const std::filesystem::path& temporary() const { return temporary_; }
  /// The number of bytes passed to write() so far.
  uint64_t bytes() const { return bytes_; }
  /// The CRC-32C of all bytes passed to write() so far.
  uint32_t crc() const { return crc_; }

 private:
  void flush();

  std::filesystem::path path_, temporary_;
  Descriptor file_;
  std::vector<std::byte> buffer_;
  uint64_t bytes_ = 0, flushed_ = 0;
  uint32_t crc_ = 0;
  bool committed_ = false;
};

/// Removes all files with the suffix ".tmp" from a folder: the temporary files of killed writers
/// (AtomicFile). No process may write to the folder at the same time.
void remove_temporary_files(const std::filesystem::path& folder);

/// Writes a small file atomically, with AtomicFile.
void write_file(const std::filesystem::path& path, std::string_view contents);

/// A file that grows at its end. If append() fails, it removes the bytes that it wrote.
class AppendFile {
 public:
  /// Creates the file if it does not exist. Throws RunError.
  explicit AppendFile(std::filesystem::path path);
  void append(std::span<const std::byte> bytes);
  void append(std::string_view contents);

 private:
  std::filesystem::path path_;
  Descriptor file_;
  uint64_t size_ = 0;
};

/// Makes new and renamed entries of `folder` durable.
void sync_folder(const std::filesystem::path& folder);

inline std::span<const std::byte> as_bytes(std::string_view contents) {
  return std::as_bytes(std::span(contents));
}

}  // namespace poseidon
