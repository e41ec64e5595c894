// Arbitrary bytes as a weights file: the reader throws RunError, or every tensor can be read.

#include "core/error.h"
#include "tests/fuzz/fuzz_file.h"
#include "trainer/state/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace poseidon;
  try {
    const trainer::SafetensorsFile file(fuzz::folder().write("weights.safetensors", data, size));
    for (const auto& entry : file.entries()) {
      if (entry.type == "F32") file.read(entry);
      if (entry.type == "I64") file.read_integers(entry);
    }
  } catch (const RunError&) {
  }
  return 0;
}
