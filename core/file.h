#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"

/// Files as Poseidon reads and writes them: at any offset, appended to, or whole or not at all. No
/// file is mapped into memory: a mapped file that becomes shorter ends the process by a signal. A
/// failure in the middle is a RunError "PATH: cannot be ...: reason".
namespace poseidon {

/// An open file descriptor. Move-only.
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

/// A file cannot be opened since the process, or the system, has too many open files.
class OutOfFiles : public RunError {
 public:
  using RunError::RunError;
};

/// Opens a file for reading. Throws OutOfFiles, and ConfigError for every other reason: there is no
/// such file or no permission.
Descriptor open_file(const std::filesystem::path& path);
uint64_t file_bytes(const Descriptor& file, const std::filesystem::path& path);

/// Reads exactly `out.size()` bytes at `offset`. Throws RunError, naming `path`, on a short file.
void read_at(const Descriptor& file, uint64_t offset, std::span<std::byte> out,
             const std::filesystem::path& path);

/// Reads a whole file into `out`, whose memory is reused. Throws as open_file() does, and RunError
/// when the file holds more than `most` bytes or cannot be read.
void read_file(const std::filesystem::path& path, uint64_t most, std::vector<std::byte>& out);

/// A file that is read at any offset, as part of a run: every error is a RunError.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path);
  uint64_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }
  /// Fills `bytes` from `offset`; fails if the file ends earlier.
  void read(uint64_t offset, std::span<std::byte> bytes) const;
  /// The CRC-32C of `length` bytes from `offset`.
  uint32_t crc(uint64_t offset, uint64_t length) const;

 private:
  std::filesystem::path path_;
  Descriptor file_;
  uint64_t size_ = 0;
};

/// A file that appears whole or not at all: written beside its destination as "<path>.<8 random
/// hexadecimal digits>.tmp", synced and renamed by commit(). Without commit() nothing stays.
/// Processes that write the same path at the same time use separate temporary files; the last
/// commit() wins.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view contents);
  /// Writes at an offset, over what was written or beyond it: bytes() and crc() do not reflect it.
  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  /// What was written so far is on the disk when this returns.
  void sync();
  void commit();

  const std::filesystem::path& path() const { return path_; }
  /// The file that holds the bytes until commit().
  const std::filesystem::path& temporary() const { return temporary_; }
  uint64_t bytes() const { return bytes_; }
  /// The CRC-32C of what write() was given so far.
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

/// Removes from a folder what writers of such files have left when they were killed.
void remove_half_done(const std::filesystem::path& folder);

/// Writes a small file whole, by AtomicFile.
void write_file(const std::filesystem::path& path, std::string_view contents);

/// A file that grows at its end. What append() could not write whole is removed again.
class AppendFile {
 public:
  /// Makes the file when it is not there. Throws RunError.
  explicit AppendFile(std::filesystem::path path);
  void append(std::span<const std::byte> bytes);
  void append(std::string_view contents);

 private:
  std::filesystem::path path_;
  Descriptor file_;
  uint64_t size_ = 0;
};

/// Makes the names in `folder` durable.
void sync_folder(const std::filesystem::path& folder);

inline std::span<const std::byte> as_bytes(std::string_view contents) {
  return std::as_bytes(std::span(contents));
}

}  // namespace poseidon
