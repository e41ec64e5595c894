#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace poseidon {

/// The encoding of a field's value in protobuf's binary format.
enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct WireField {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t value = 0;                ///< for all types except kBytes
  std::span<const std::byte> bytes;  ///< for kBytes: a view of the file's memory
  size_t offset = 0;                 ///< of the field in the file, for error messages
};

/// Reads the fields of one message in protobuf's binary format, one after another. Never reads
/// outside the message's bytes. Throws ConfigError "FILE: byte N: ..." for invalid input and for
/// messages nested deeper than 16.
class WireMessage {
 public:
  /// The outermost message: a complete file with name `file`. Both arguments must outlive this
  /// object.
  WireMessage(std::span<const std::byte> bytes, const std::string& file);
  /// The message in the value of a field. Throws ConfigError if the field's type is not kBytes.
  WireMessage(const WireMessage& outer, const WireField& field);

  /// Reads the next field. Returns false at the end.
  bool next(WireField& field);

  /// The text in a field. Throws ConfigError for another wire type, for invalid UTF-8 and for more
  /// than 4096 bytes.
  std::string text(const WireField& field) const;
  [[noreturn]] void fail(const WireField& field, const std::string& message) const;

 private:
  uint64_t varint(const char* what);
  uint64_t fixed(size_t size);
  void read_value(WireField& field, uint32_t type);
  [[noreturn]] void fail_at_offset(size_t offset, const std::string& message) const;
  size_t offset() const { return origin_ + index_; }

  std::span<const std::byte> bytes_;
  const std::string& file_;
  size_t origin_ = 0;  ///< offset of bytes_ in the file
  size_t index_ = 0;
  int depth_ = 0;
};

}  // namespace poseidon
