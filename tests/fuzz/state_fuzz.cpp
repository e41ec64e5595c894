// Arbitrary bytes as the state file of a checkpoint: the reader throws RunError, or accepts it. If
// the input starts with "{", it is a header with values. The target then adds the file's frame and
// checksums, so that the checks after them are reached.

#include <cstring>
#include <string>

#include "core/digest.h"
#include "core/error.h"
#include "tests/fuzz/fuzz_file.h"
#include "trainer/state/checkpoint.h"

namespace {

template <class Number>
void append(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

/// The input is a header up to the last "}", followed by values.
std::string framed(const std::string& input) {
  const size_t header = input.rfind('}') == std::string::npos ? 0 : input.rfind('}') + 1;
  std::string bytes = "PSDNSTAT";
  append(bytes, uint32_t{1});
  append(bytes, static_cast<uint32_t>(header));
  bytes += input;
  append(bytes, uint64_t{bytes.size() + 12});
  append(bytes, poseidon::crc32c(std::as_bytes(std::span(bytes))));
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace poseidon;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.starts_with('{')) bytes = framed(bytes);
  fuzz::folder().write("step-1.safetensors", nullptr, 0);
  try {
    const trainer::Checkpoint checkpoint(fuzz::folder().write(
        "step-1.state", reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
    checkpoint.restore({});
  } catch (const RunError&) {
  } catch (const ConfigError&) {
  }
  return 0;
}
