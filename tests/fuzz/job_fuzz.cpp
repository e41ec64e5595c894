// Arbitrary bytes as a job file: the reader throws ConfigError, or returns a resolved job that
// resolves to itself.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/config_file.h"
#include "core/error.h"
#include "trainer/job/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace poseidon;
  try {
    const Json json = parse_config({reinterpret_cast<const char*>(data), size}, "job.json");
    const Json resolved = trainer::resolved(trainer::read_job_config(json, "job.json"));
    if (trainer::resolved(trainer::read_job_config(resolved, "resolved")) != resolved)
      __builtin_trap();
  } catch (const ConfigError&) {
  }
  return 0;
}
