// Arbitrary bytes as an IDX file, possibly gzipped: the reader throws RunError, or returns data of
// the length in the header.

#include <cstdint>
#include <cstdlib>

#include "core/error.h"
#include "data/gzip.h"
#include "data/mnist.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace poseidon;
  using namespace poseidon::data;
  const std::span<const std::byte> bytes{reinterpret_cast<const std::byte*>(data), size};
  try {
    const std::vector<std::byte> plain = is_gzip(bytes)
                                             ? inflate(bytes, 1 << 20, "f")
                                             : std::vector<std::byte>(bytes.begin(), bytes.end());
    for (int dimensions : {1, 3}) {
      try {
        const IdxFile file = parse_idx(plain, dimensions, "f");
        int64_t count = 1;
        for (int64_t extent : file.extents) count *= extent;
        if (static_cast<size_t>(count) != file.values.size()) std::abort();
      } catch (const RunError&) {
      }
    }
  } catch (const RunError&) {
  }
  return 0;
}
