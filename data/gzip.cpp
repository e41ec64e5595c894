#include "data/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

#include "core/error.h"

namespace poseidon::data {

namespace {

/// Owner of a zlib stream for one inflate() call.
class Inflater {
 public:
  Inflater() {
    constexpr int kGzipOnly = 16;
    if (inflateInit2(&stream_, kGzipOnly + MAX_WBITS) != Z_OK)
      throw RunError("zlib cannot be initialized: out of memory");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
};

/// Passes the next bytes of `source` to zlib and returns their number.
size_t feed(z_stream& stream, const ByteSource& source) {
  const std::span<const std::byte> piece = source();
  check(piece.size() <= std::numeric_limits<uInt>::max(), "zlib counts bytes in 32 bits");
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(piece.data()));
  stream.avail_in = static_cast<uInt>(piece.size());
  return piece.size();
}

}  // namespace

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

void inflate(const ByteSource& source, uint64_t most, const std::string& name,
             const ByteSink& sink) {
  Inflater inflater;
  z_stream& stream = inflater.stream();
  std::array<std::byte, 65536> piece;
  uint64_t taken = 0, given = 0;
  bool ended = false;  // the source has ended
  const auto fail = [&](const std::string& what) {
    throw RunError(text(name, ": byte ", taken - stream.avail_in, ": ", what));
  };
  const auto refill = [&] {
    if (stream.avail_in > 0 || ended) return;
    const size_t bytes = feed(stream, source);
    taken += bytes;
    ended = bytes == 0;
  };
  for (;;) {
    refill();
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    const int result = ::inflate(&stream, Z_NO_FLUSH);
    const size_t count = piece.size() - stream.avail_out;
    given += count;
    if (given > most) fail(text("expected at most ", most, " bytes when decompressed, got more"));
    if (count > 0) sink({piece.data(), count});
    if (result == Z_STREAM_END) {
      refill();
      if (ended) return;
      inflateReset(&stream);  // another gzip member follows
    } else if (ended && count == 0 && (result == Z_OK || result == Z_BUF_ERROR)) {
      fail("the gzip data end too early: the file is truncated");
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      fail(text("not valid gzip data: ", stream.msg != nullptr ? stream.msg : "unknown error"));
    }
  }
}

void inflate(std::span<const std::byte> bytes, uint64_t most, const std::string& name,
             const ByteSink& sink) {
  static constexpr size_t kMaxAtOnce = size_t{1} << 30;
  const auto source = [rest = bytes]() mutable {
    const auto piece = rest.first(std::min(rest.size(), kMaxAtOnce));
    rest = rest.subspan(piece.size());
    return piece;
  };
  inflate(ByteSource(source), most, name, sink);
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
