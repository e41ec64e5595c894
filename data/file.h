#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace poseidon::data {

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

/// Opens a file for reading. Throws ConfigError when there is no such file or no permission.
Descriptor open_file(const std::filesystem::path& path);
uint64_t file_bytes(const Descriptor& file, const std::filesystem::path& path);

/// Reads exactly `out.size()` bytes at `offset`. Throws RunError, naming `path`, on a short file.
void read_at(const Descriptor& file, uint64_t offset, std::span<std::byte> out,
             const std::filesystem::path& path);

/// A whole file into `out`, whose memory is reused. Throws ConfigError when it cannot be opened,
/// RunError when it holds more than `most` bytes or cannot be read.
void read_file(const std::filesystem::path& path, uint64_t most, std::vector<std::byte>& out);

/// A file as read-only memory. Move-only. The file must not be cut while it is mapped.
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws ConfigError when the file cannot be opened, RunError when it cannot be mapped.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

/// Writes a file under a temporary name beside its own; commit() syncs it and gives it its name.
/// Without commit() nothing stays. Every failure is a RunError that names the file.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  /// Overwrites bytes already written.
  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  uint64_t written() const { return written_; }
  void commit();

 private:
  void flush();

  std::filesystem::path path_, temporary_;
  Descriptor file_;
  std::vector<std::byte> buffer_;
  uint64_t written_ = 0, flushed_ = 0;
};

/// Makes the names in `folder` durable.
void sync_folder(const std::filesystem::path& folder);

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace poseidon::data
