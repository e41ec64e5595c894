#include "data/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

#include "core/error.h"

namespace poseidon::data {

namespace {

/// zlib's stream; move-free, one per inflate().
class Inflater {
 public:
  Inflater() {
    constexpr int kGzipOnly = 16;
    if (inflateInit2(&stream_, kGzipOnly + MAX_WBITS) != Z_OK)
      throw RunError("zlib cannot be started: out of memory");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
};

/// Hands the next part of `rest` to zlib, whose counters have 32 bits.
void feed(z_stream& stream, std::span<const std::byte>& rest) {
  const size_t count = std::min<size_t>(rest.size(), std::numeric_limits<uInt>::max());
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(rest.data()));
  stream.avail_in = static_cast<uInt>(count);
  rest = rest.subspan(count);
}

}  // namespace

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

void inflate(std::span<const std::byte> bytes, uint64_t most, const std::string& name,
             const std::function<void(std::span<const std::byte>)>& sink) {
  Inflater inflater;
  z_stream& stream = inflater.stream();
  std::array<std::byte, 65536> piece;
  uint64_t given = 0;
  std::span<const std::byte> rest = bytes;
  const auto fail = [&](const std::string& what) {
    const size_t at = bytes.size() - rest.size() - stream.avail_in;
    throw RunError(text(name, ": byte ", at, ": ", what));
  };
  for (;;) {
    if (stream.avail_in == 0) feed(stream, rest);
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    const int result = ::inflate(&stream, Z_NO_FLUSH);
    const size_t count = piece.size() - stream.avail_out;
    given += count;
    if (given > most) fail(text("expected at most ", most, " bytes when decompressed, got more"));
    if (count > 0) sink({piece.data(), count});
    if (result == Z_STREAM_END) {
      if (stream.avail_in == 0 && rest.empty()) return;
      inflateReset(&stream);  // another member follows
    } else if (result == Z_BUF_ERROR ||
               (result == Z_OK && count == 0 && stream.avail_in == 0 && rest.empty())) {
      fail("the gzip data end too early: the file is cut");
    } else if (result != Z_OK) {
      fail(text("not valid gzip data: ", stream.msg != nullptr ? stream.msg : "unknown error"));
    }
  }
}

std::vector<std::byte> inflate(std::span<const std::byte> bytes, uint64_t most,
                               const std::string& name) {
  std::vector<std::byte> out;
  inflate(bytes, most, name, [&](std::span<const std::byte> piece) {
    out.insert(out.end(), piece.begin(), piece.end());
  });
  return out;
}

}  // namespace poseidon::data
