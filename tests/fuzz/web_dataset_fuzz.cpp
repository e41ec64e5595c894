// Arbitrary bytes as a WebDataset: the reader throws ConfigError or RunError, or returns samples
// with labels in range. Their number must not exceed the size of the stream.

#include <cstdint>
#include <cstdlib>

#include "data/web_dataset.h"
#include "tests/fuzz/fuzz_file.h"

namespace {

using namespace poseidon;
using namespace poseidon::data;

/// Returns false at the end.
bool read_next(SampleStream& stream) {
  std::string name;
  Sample sample;
  try {
    if (!stream.next(name, sample)) return false;
    if (sample.label < 0 || sample.label >= kMaxNumberedClasses) std::abort();
  } catch (const CorruptSample&) {
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::filesystem::path path = fuzz::folder().write("f.tar", data, size);
  try {
    const auto stream = open_web_dataset(path, path.parent_path());
    int64_t samples = 0;
    while (read_next(*stream)) ++samples;
    if (samples > stream->size()) std::abort();
  } catch (const ConfigError&) {
  } catch (const RunError&) {
  }
  return 0;
}
