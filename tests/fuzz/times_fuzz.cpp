// Arbitrary bytes as measured times: the parser throws ConfigError, or a plan can be made with
// them.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/error.h"
#include "trainer/plan/sync_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace poseidon;
  comm::PlanRequest request;
  request.layers = {
      {.name = "ip",
       .type = "linear",
       .rows = 10,
       .columns = 64,
       .linear = true,
       .tensors = {{.name = "ip.weight", .elements = 640}},
       .factors = comm::FactorSizes{.deltas = 10, .activations = 64, .multiply_adds = 640}}};
  request.workers = request.servers = request.global_batch = 2;
  request.policy = comm::Policy::kTime;
  request.link_mbps = 100;
  try {
    const Json times = parse_json({reinterpret_cast<const char*>(data), size}, "times.json");
    trainer::add_times(request, trainer::read_layer_times(times, "times.json"), "times.json");
    if (comm::make_plan(request).predicted_step_ms < 0) __builtin_trap();
  } catch (const ConfigError&) {
  }
  return 0;
}
