#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

// What a program that reads databases writes to its standard output, and poseidon-data reads.
// Numbers are little-endian.
//
//   beginning   8 bytes  the letters PSDNENTR
//               8 bytes  number of entries, or 0 where only the end tells
//   entry       4 bytes  length of its key, at least 1
//               4 bytes  length of its value
//               the key, greater than the one before, and the value
//   end         8 bytes  zero
//               8 bytes  number of entries

namespace poseidon::data {

/// Limits of an entry: what says to be larger is refused.
inline constexpr uint32_t kMostKeyBytes = 4096;
inline constexpr uint32_t kMostValueBytes = uint32_t{1} << 28;

/// Writes entries through `write`, which takes all that it is given.
class EntryWriter {
 public:
  using Write = std::function<void(std::span<const std::byte>)>;
  EntryWriter(Write write, uint64_t count);
  /// Throws RunError for an entry beyond the limits.
  void add(std::span<const std::byte> key, std::span<const std::byte> value);
  void finish();

 private:
  Write write_;
  uint64_t done_ = 0;
};

/// Reads entries, which anybody may have written, from `read`, which fills what it is given or
/// throws.
class EntryReader {
 public:
  using Read = std::function<void(std::span<std::byte>)>;
  /// Throws RunError for another beginning.
  explicit EntryReader(Read read);
  /// As the beginning says: 0 where only the end tells.
  uint64_t count() const { return count_; }
  uint64_t done() const { return done_; }
  /// False at the end. Throws RunError for what is no entry or no end.
  bool next(std::string& key, std::vector<std::byte>& value);

 private:
  void read_value(size_t bytes, std::vector<std::byte>& value);
  void check_end();

  Read read_;
  uint64_t count_ = 0, done_ = 0;
  std::string last_key_;
};

}  // namespace poseidon::data
