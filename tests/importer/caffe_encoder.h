#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

/// Writes protobuf's binary format, for tests of readers.
namespace poseidon::importer::made {

using Wire = std::string;

inline Wire varint(uint64_t value) {
  Wire out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}

inline Wire tag(uint32_t field, uint32_t type) { return varint(uint64_t{field} << 3 | type); }
inline Wire number(uint32_t field, uint64_t value) { return tag(field, 0) + varint(value); }
inline Wire bytes(uint32_t field, const Wire& content) {
  return tag(field, 2) + varint(content.size()) + content;
}

template <class Value>
Wire raw(Value value) {
  Wire out(sizeof value, '\0');
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

template <class Value>
Wire packed(uint32_t field, const std::vector<Value>& values) {
  Wire content;
  for (const Value value : values) content += raw(value);
  return bytes(field, content);
}

inline Wire shape(const std::vector<uint64_t>& extents) {
  Wire content;
  for (const uint64_t extent : extents) content += varint(extent);
  return bytes(7, bytes(1, content));
}

/// BlobProto with a shape and packed floats.
inline Wire blob(const std::vector<uint64_t>& extents, const std::vector<float>& values) {
  return shape(extents) + packed(5, values);
}

/// BlobProto in the format of old files: four extents, unpacked floats.
inline Wire old_blob(const std::vector<uint64_t>& extents, const std::vector<float>& values) {
  Wire out;
  for (uint32_t i = 0; i < 4; ++i) out += number(i + 1, extents[i]);
  for (const float value : values) out += tag(5, 5) + raw(value);
  return out;
}

/// One layer of a NetParameter, in the new format.
inline Wire layer(const std::string& name, const std::vector<Wire>& blobs) {
  Wire content = bytes(1, name) + bytes(2, "Convolution") + number(10, 0);
  for (const Wire& each : blobs) content += bytes(7, each);
  return bytes(100, content);
}

/// One layer of a NetParameter, in the V1 format.
inline Wire v1_layer(const std::string& name, const std::vector<Wire>& blobs) {
  Wire content = bytes(4, name) + number(5, 4);
  for (const Wire& each : blobs) content += bytes(6, each);
  return bytes(2, content);
}

inline std::vector<std::byte> content_of(const Wire& wire) {
  const auto* begin = reinterpret_cast<const std::byte*>(wire.data());
  return {begin, begin + wire.size()};
}

}  // namespace poseidon::importer::made
