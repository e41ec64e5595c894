// Arbitrary bytes as a stream of frames. The first byte selects the size of the reads. An accepted
// frame must encode to the bytes that were read, and its body must be within its limit and its
// destination. A bulk frame must ask for a destination.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "comm/wire/frame_reader.h"

namespace {

using namespace poseidon::comm;

void require(bool condition) {
  if (!condition) std::abort();
}

class Sink final : public FrameSink {
 public:
  std::string announced(const FrameHeader& header) override {
    require(body_cap(header.kind) && header.length <= *body_cap(header.kind));
    placed_ = false;
    return "";
  }
  std::span<std::byte> destination(const FrameHeader& header) override {
    require(is_bulk(header.kind) && header.length > 0);
    placed_ = true;
    if (header.chunk % 2 == 1) return {};
    place_.resize(header.length);
    return place_;
  }
  bool take(const FrameHeader& header, std::span<const std::byte> body) override {
    ChecksumSeal seal;
    seal.add(body);
    require(body.size() == header.length && seal.of_body() == header.body_seal);
    require(decode(encode(header, seal), seal).header == header);
    require(placed_ == is_bulk(header.kind));
    return header.step != 77;
  }

 private:
  std::vector<std::byte> place_;
  bool placed_ = false;  ///< whether destination() was called for the announced frame
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t most = size_t{1} + data[0] * 17;
  FrameReader reader;
  Sink sink;
  for (size_t at = 1; at < size;) {
    size_t count = 0;
    for (std::span<std::byte> room : reader.room()) {
      const size_t now = std::min(room.size(), std::min(most - count, size - at));
      if (now > 0) std::memcpy(room.data(), data + at, now);
      at += now;
      count += now;
    }
    if (count == 0) break;  // the sink has stopped the reader
    if (!reader.filled(count, sink).empty()) break;
  }
  return 0;
}
