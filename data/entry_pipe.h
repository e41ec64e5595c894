#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

// The data format that a database reader program writes to its standard output and poseidon-data
// reads. Numbers are little-endian.
//
//   beginning   8 bytes  the letters PSDNENTR
//               8 bytes  number of entries, or 0 if unknown before the end
//   entry       4 bytes  length of its key, at least 1
//               4 bytes  length of its value
//               the key (greater than the previous key), then the value
//   end         8 bytes  zero
//               8 bytes  number of entries

namespace poseidon::data {

/// Limits on the bytes of one key and of one value. Writer and reader reject larger entries.
inline constexpr uint32_t kMaxKeyBytes = 4096;
inline constexpr uint32_t kMaxValueBytes = uint32_t{1} << 28;

/// Writes entries through `write`, which must write all bytes of its span. The caller adds entries
/// in ascending order of keys and then calls finish(). The writer does not check the order.
class EntryWriter {
 public:
  using Write = std::function<void(std::span<const std::byte>)>;
  /// `count`: number of entries; 0 if unknown.
  EntryWriter(Write write, uint64_t count);
  /// Throws RunError if the key is empty or the entry exceeds the limits.
  void add(std::span<const std::byte> key, std::span<const std::byte> value);
  void finish();

 private:
  Write write_;
  uint64_t done_ = 0;
};

/// Reads entries from untrusted input. `read` fills its whole span or throws.
class EntryReader {
 public:
  using Read = std::function<void(std::span<std::byte>)>;
  /// Reads the beginning. Throws RunError if the magic is wrong or the count is 2^63 or more.
  explicit EntryReader(Read read);
  /// Number of entries announced at the beginning; 0 if unknown before the end.
  uint64_t count() const { return count_; }
  /// Number of entries that next() has read.
  uint64_t done() const { return done_; }
  /// Reads the next entry and returns true. Returns false at the end. Throws RunError if the input
  /// is damaged.
  bool next(std::string& key, std::vector<std::byte>& value);

 private:
  void read_value(size_t bytes, std::vector<std::byte>& value);
  void check_end();

  Read read_;
  uint64_t count_ = 0, done_ = 0;
  std::string last_key_;
};

}  // namespace poseidon::data
