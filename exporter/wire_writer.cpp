#include "exporter/wire_writer.h"

#include <bit>

namespace poseidon::exporter {

namespace {

constexpr uint32_t kVarint = 0, kBytes = 2, kFixed32 = 5;

}  // namespace

void WireWriter::put(std::string_view bytes) {
  if (pieces_.empty() || !std::holds_alternative<std::string>(pieces_.back()))
    pieces_.emplace_back(std::string());
  std::get<std::string>(pieces_.back()) += bytes;
  size_ += bytes.size();
}

void WireWriter::put_varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  put(bytes + static_cast<char>(value));
}

void WireWriter::integer(uint32_t field, int64_t value) {
  put_tag(field, kVarint);
  put_varint(static_cast<uint64_t>(value));
}

void WireWriter::single(uint32_t field, float value) {
  put_tag(field, kFixed32);
  const auto bits = std::bit_cast<uint32_t>(value);
  std::string bytes;
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(bits >> shift);
  put(bytes);
}

void WireWriter::text(uint32_t field, std::string_view value) {
  put_tag(field, kBytes);
  put_varint(value.size());
  put(value);
}

void WireWriter::message(uint32_t field, WireWriter inner) {
  put_tag(field, kBytes);
  put_varint(inner.size_);
  for (auto& piece : inner.pieces_) {
    if (const auto* bytes = std::get_if<std::string>(&piece)) {
      put(*bytes);
    } else {
      size_ += std::get<Large>(piece).size;
      pieces_.push_back(std::move(piece));
    }
  }
}

void WireWriter::bytes(uint32_t field, uint64_t size, Fill fill) {
  put_tag(field, kBytes);
  put_varint(size);
  pieces_.emplace_back(Large{size, std::move(fill)});
  size_ += size;
}

void WireWriter::write(const Sink& sink) const {
  std::vector<std::byte> memory;
  for (const auto& piece : pieces_) {
    if (const auto* bytes = std::get_if<std::string>(&piece)) {
      sink(std::as_bytes(std::span(*bytes)));
    } else {
      const Large& large = std::get<Large>(piece);
      memory.resize(large.size);
      large.fill(memory);
      sink(memory);
    }
  }
}

}  // namespace poseidon::exporter
