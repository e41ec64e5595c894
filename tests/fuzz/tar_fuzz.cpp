// Arbitrary bytes as a tar archive: the reader throws RunError, or returns a list of files inside
// the archive.

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "core/error.h"
#include "data/tar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace poseidon;
  using namespace poseidon::data;
  const ReadAt read = [&](uint64_t offset, std::span<std::byte> out) {
    if (offset > size || out.size() > size - offset) std::abort();
    if (!out.empty()) std::memcpy(out.data(), data + offset, out.size());
  };
  try {
    for (const TarEntry& entry : list_tar(size, read, "f"))
      if (entry.offset > size || entry.bytes > size - entry.offset) std::abort();
  } catch (const RunError&) {
  }
  return 0;
}
