// Arbitrary bytes as a shard or a manifest of a record set: the reader throws RunError, or every
// record can be read safely. A second pass corrects the checksums of a shard, so that the checks
// after them are reached.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/digest.h"
#include "core/error.h"
#include "data/record_set.h"

namespace {

using namespace poseidon;
using namespace poseidon::data;

void read_shard(std::span<const std::byte> bytes) {
  const ReadAt read = [bytes](uint64_t offset, std::span<std::byte> out) {
    if (offset > bytes.size() || out.size() > bytes.size() - offset) __builtin_trap();
    std::ranges::copy(bytes.subspan(offset, out.size()), out.begin());
  };
  try {
    const RecordShard shard(bytes.size(), read, 10, "f");
    Sample sample;
    for (uint64_t i = 0; i < shard.records(); ++i) {
      shard.record_name(i);
      try {
        shard.read(i, sample);
        if (sample.extras.size() != shard.header().extra_bytes) __builtin_trap();
      } catch (const CorruptSample&) {
      }
    }
  } catch (const RunError&) {
  }
}

void put_crc(std::vector<std::byte>& bytes, size_t at, uint32_t crc) {
  for (size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<std::byte>(crc >> (8 * i));
}

void make_checksums_right(std::vector<std::byte>& bytes) {
  if (bytes.size() < kShardHeaderBytes) return;
  uint64_t index = 0;
  for (size_t i = 0; i < 8; ++i) index |= std::to_integer<uint64_t>(bytes[24 + i]) << (8 * i);
  if (index <= bytes.size()) put_crc(bytes, 40, crc32c(std::span(bytes).subspan(index)));
  put_crc(bytes, 60, crc32c(std::span(bytes).first(60)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(begin, begin + size);
  read_shard(bytes);
  make_checksums_right(bytes);
  read_shard(bytes);
  try {
    parse_manifest({reinterpret_cast<const char*>(data), size}, "f");
  } catch (const RunError&) {
  }
  return 0;
}
