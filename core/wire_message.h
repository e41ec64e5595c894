#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace poseidon {

/// How a field's value lies in protobuf's binary format.
enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct WireField {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t value = 0;                ///< of all types but kBytes
  std::span<const std::byte> bytes;  ///< of kBytes: in the file's memory
  size_t offset = 0;                 ///< of the field in the file, for messages
};

/// The fields of one message of protobuf's binary format, one after another. Reads only within
/// `bytes`; throws ConfigError "FILE: byte N: ..." for what is no such message, and where messages
/// are nested deeper than 16.
class WireMessage {
 public:
  /// A whole file.
  WireMessage(std::span<const std::byte> bytes, const std::string& file);
  /// The message that is the value of a field; refuses another wire type.
  WireMessage(const WireMessage& outer, const WireField& field);

  /// False at the end.
  bool next(WireField& field);

  /// The text of a field; refuses another wire type and what is no UTF-8.
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
  size_t origin_ = 0;  ///< of bytes_ in the file
  size_t index_ = 0;
  int depth_ = 0;
};

}  // namespace poseidon
