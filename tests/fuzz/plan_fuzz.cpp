// Arbitrary bytes as a plan: the reader throws ConfigError, or returns a plan that is the same
// after it is written and read again.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "comm/plan/plan.h"
#include "core/error.h"

namespace {

using poseidon::comm::LayerTraffic;

/// The layers of the plans in tests/fuzz/corpus/plan.
std::vector<LayerTraffic> layers() {
  LayerTraffic conv{.name = "conv", .type = "convolution", .rows = 64, .columns = 600};
  conv.tensors = {{.name = "conv.weight", .elements = 38400},
                  {.name = "conv.bias", .elements = 64}};
  LayerTraffic norm{.name = "bn", .type = "batch_norm", .rows = 64, .columns = 1};
  norm.tensors = {{.name = "bn.scale", .elements = 64},
                  {.name = "bn.running_mean", .elements = 64, .statistic = true, .exact = true}};
  LayerTraffic linear{.name = "ip", .type = "linear", .rows = 10, .columns = 64, .linear = true};
  linear.tensors = {{.name = "ip.weight", .elements = 640}, {.name = "ip.bias", .elements = 10}};
  linear.factors = {.deltas = 10, .activations = 64, .multiply_adds = 640};
  return {conv, norm, linear};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace poseidon;
  static const std::vector<LayerTraffic> kLayers = layers();
  try {
    const Json json = parse_json({reinterpret_cast<const char*>(data), size}, "plan.json");
    const Json written = comm::to_json(comm::read_plan(json, {"plan.json", ""}, kLayers));
    if (comm::to_json(comm::read_plan(written, {"written", ""}, kLayers)) != written)
      __builtin_trap();
  } catch (const ConfigError&) {
  }
  return 0;
}
