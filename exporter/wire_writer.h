#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace poseidon::exporter {

/// Builds a message in protobuf's binary format, field by field. The content of a field that
/// bytes() adds is created only in write(). So the contents of at most one such field are in
/// memory.
class WireWriter {
 public:
  using Fill = std::function<void(std::span<std::byte>)>;
  using Sink = std::function<void(std::span<const std::byte>)>;

  void integer(uint32_t field, int64_t value);
  void single(uint32_t field, float value);
  void text(uint32_t field, std::string_view value);
  void message(uint32_t field, WireWriter inner);
  void bytes(uint32_t field, uint64_t size, Fill fill);

  uint64_t size() const { return size_; }
  /// Passes the bytes to `sink`, one buffer at a time.
  void write(const Sink& sink) const;

 private:
  struct Large {
    uint64_t size = 0;
    Fill fill;
  };

  void put(std::string_view bytes);
  void put_varint(uint64_t value);
  void put_tag(uint32_t field, uint32_t type) { put_varint(uint64_t{field} << 3 | type); }

  std::vector<std::variant<std::string, Large>> pieces_;
  uint64_t size_ = 0;
};

}  // namespace poseidon::exporter
