// Arbitrary bytes as a PFM file: the reader throws RunError, or returns an image that is the same
// after it is written and read again.

#include <cstdint>
#include <cstdlib>

#include "core/error.h"
#include "data/pfm.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace poseidon;
  using namespace poseidon::data;
  try {
    const FloatImage image = parse_pfm({reinterpret_cast<const std::byte*>(data), size}, "f");
    if (parse_pfm(encode_pfm(image), "f").values != image.values) std::abort();
  } catch (const RunError&) {
  }
  return 0;
}
