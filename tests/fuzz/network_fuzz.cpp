// Arbitrary bytes as a network file: the reader throws ConfigError, or returns a network whose
// summary can be written.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/config_file.h"
#include "core/error.h"
#include "net/network.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace poseidon;
  try {
    const Json json = parse_config({reinterpret_cast<const char*>(data), size}, "network.json");
    net::Network(json, "network.json", 2).summary();
  } catch (const ConfigError&) {
  }
  return 0;
}
