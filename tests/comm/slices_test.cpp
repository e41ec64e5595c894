// Slices of chunks and factors: the same elements in each codec.

#include "comm/wire/slices.h"

#include <doctest/doctest.h>

using namespace poseidon;
using namespace poseidon::comm;

TEST_CASE("a slice of a chunk has the same elements in each codec") {
  const uint64_t elements = 3 * kSliceElements + 100;
  for (const WireFormat format : {WireFormat::kFp32, WireFormat::kBf16}) {
    const EncodedSlices slices(codec_of(format), elements);
    REQUIRE(slices.count() == 4);
    CHECK(slices.bytes() == codec_of(format).bytes(elements));
    FrameHeader header;
    uint64_t bytes = 0, before = 0;
    for (uint64_t slice = 0; slice < slices.count(); ++slice) {
      slices.place(slice, header);
      CHECK(header.offset == slice * kSliceElements);
      CHECK(slices.elements_of(header) == (slice == 3 ? 100 : kSliceElements));
      CHECK(slices.bytes_before(header) == before);
      CHECK(EncodedSlices::index_of(header) == slice);
      CHECK(slices.has(header));
      bytes += header.length;
      before += codec_of(format).bytes(kSliceElements);
    }
    CHECK(bytes == slices.bytes());
  }
}

TEST_CASE("a frame that is not exactly one slice is refused") {
  const EncodedSlices slices(codec_of(WireFormat::kBf16), kSliceElements + 10);
  FrameHeader last;
  slices.place(1, last);
  for (const auto& [offset, length] :
       std::vector<std::pair<uint64_t, uint64_t>>{{last.offset, last.length + 2},
                                                  {last.offset, last.length - 2},
                                                  {last.offset, 0},
                                                  {last.offset - 1, last.length},
                                                  {2 * kSliceElements, last.length},
                                                  {uint64_t{1} << 63, last.length},
                                                  {0, last.length}}) {
    CAPTURE(offset);
    CAPTURE(length);
    CHECK_FALSE(slices.has({.offset = offset, .length = length}));
  }
  CHECK(slices.fault_of({.offset = 5, .length = 20}, "chunk 3") ==
        "sent 20 bytes from element 5 of chunk 3, expected one slice of its 65546 elements");
}
