#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace poseidon::trainer {

/// An open file descriptor; closed at the end.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  int get() const { return number_; }

 private:
  int number_ = -1;
};

/// A file that appears whole or not at all: written beside its place as "<path>.tmp", synced and
/// renamed by commit(). Without commit() nothing stays. Errors are RunError with path and reason.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view words);
  void commit();

  uint64_t bytes() const { return bytes_; }
  /// CRC-32C of what was written so far.
  uint32_t crc() const { return crc_; }

 private:
  [[noreturn]] void fail(const char* doing) const;

  std::filesystem::path path_, temporary_;
  Descriptor file_;
  uint64_t bytes_ = 0;
  uint32_t crc_ = 0;
  bool committed_ = false;
};

/// Writes a small file whole, by AtomicFile.
void write_file(const std::filesystem::path& path, std::string_view words);

/// A file that grows at its end. What append() could not write whole is taken back.
class AppendFile {
 public:
  /// Makes the file when it is not there. Throws RunError.
  explicit AppendFile(std::filesystem::path path);
  void append(std::span<const std::byte> bytes);
  void append(std::string_view words);

 private:
  std::filesystem::path path_;
  Descriptor file_;
  uint64_t size_ = 0;
};

/// A file read at any place. Errors are RunError with path and reason.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path);
  uint64_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }
  /// Fills `bytes` from `offset`; fails where the file ends before.
  void read(uint64_t offset, std::span<std::byte> bytes) const;
  /// CRC-32C of `length` bytes from `offset`.
  uint32_t crc(uint64_t offset, uint64_t length) const;

 private:
  std::filesystem::path path_;
  Descriptor file_;
  uint64_t size_ = 0;
};

}  // namespace poseidon::trainer
