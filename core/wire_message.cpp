#include "core/wire_message.h"

#include "core/error.h"
#include "core/printable.h"

namespace poseidon {

namespace {

constexpr int kMaxNestedMessages = 16;

const char* wire_type_name(WireType type) {
  switch (type) {
    case WireType::kVarint: return "a varint";
    case WireType::kFixed64: return "64 bits";
    case WireType::kBytes: return "bytes";
    case WireType::kFixed32: return "32 bits";
  }
  return "";
}

}  // namespace

WireMessage::WireMessage(std::span<const std::byte> bytes, const std::string& file)
    : bytes_(bytes), file_(file) {}

WireMessage::WireMessage(const WireMessage& outer, const WireField& field)
    : bytes_(field.bytes), file_(outer.file_), depth_(outer.depth_ + 1) {
  if (field.type != WireType::kBytes)
    outer.fail(field, poseidon::text("expected a message, got ", wire_type_name(field.type)));
  if (depth_ > kMaxNestedMessages)
    outer.fail(field, poseidon::text("messages are nested deeper than ", kMaxNestedMessages));
  origin_ = outer.origin_ + static_cast<size_t>(field.bytes.data() - outer.bytes_.data());
}

bool WireMessage::next(WireField& field) {
  if (index_ == bytes_.size()) return false;
  field = {.bytes = {}, .offset = offset()};
  const uint64_t tag = varint("a field's tag");
  if (tag >> 3 == 0 || tag >> 32 != 0)
    fail_at_offset(field.offset, poseidon::text("expected a field number from 1 to 536870911, ",
                                                "got ", tag >> 3, " (not protobuf?)"));
  field.number = static_cast<uint32_t>(tag >> 3);
  read_value(field, static_cast<uint32_t>(tag & 7));
  return true;
}

void WireMessage::read_value(WireField& field, uint32_t type) {
  field.type = static_cast<WireType>(type);
  switch (field.type) {
    case WireType::kVarint: field.value = varint("a value"); return;
    case WireType::kFixed64: field.value = fixed(8); return;
    case WireType::kFixed32: field.value = fixed(4); return;
    case WireType::kBytes: break;
    default:
      fail_at_offset(field.offset, poseidon::text("expected a wire type of 0, 1, 2 or 5, got ",
                                                  type, " (not protobuf?)"));
  }
  const uint64_t length = varint("a length");
  const size_t left = bytes_.size() - index_;
  if (length > left)
    fail_at_offset(field.offset, poseidon::text("field ", field.number, " has ", length,
                                                " bytes, but only ", left, " are left (cut off?)"));
  field.bytes = bytes_.subspan(index_, static_cast<size_t>(length));
  index_ += static_cast<size_t>(length);
}

uint64_t WireMessage::varint(const char* what) {
  const size_t begin = offset();
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (index_ == bytes_.size())
      fail_at_offset(begin, poseidon::text("ends within ", what, " (cut off?)"));
    const auto byte = static_cast<uint64_t>(bytes_[index_++]);
    if (shift == 63 && byte > 1) break;
    value |= (byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  fail_at_offset(begin, poseidon::text("expected ", what, " of at most 64 bits, got more"));
}

uint64_t WireMessage::fixed(size_t size) {
  if (bytes_.size() - index_ < size)
    fail_at_offset(offset(), poseidon::text("expected ", size, " bytes, got ",
                                            bytes_.size() - index_, " (cut off?)"));
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= static_cast<uint64_t>(bytes_[index_ + i]) << (8 * i);
  index_ += size;
  return value;
}

std::string WireMessage::text(const WireField& field) const {
  if (field.type != WireType::kBytes)
    fail(field, poseidon::text("expected a string, got ", wire_type_name(field.type)));
  constexpr size_t kMaxCharacters = 4096;
  if (field.bytes.size() > kMaxCharacters)
    fail(field, poseidon::text("expected a string of at most ", kMaxCharacters, " bytes, got ",
                               field.bytes.size()));
  std::string out(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size());
  if (!is_utf8(out)) fail(field, "expected UTF-8, got \"" + printable(out) + "\"");
  return out;
}

void WireMessage::fail(const WireField& field, const std::string& message) const {
  fail_at_offset(field.offset, poseidon::text("field ", field.number, ": ", message));
}

void WireMessage::fail_at_offset(size_t offset, const std::string& message) const {
  throw ConfigError(poseidon::text(file_, ": byte ", offset, ": ", message));
}

}  // namespace poseidon
