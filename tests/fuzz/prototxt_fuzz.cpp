// Arbitrary bytes as a prototxt: the importer throws ConfigError, or returns a network of ours. As
// a solver, it throws ConfigError, or returns a job.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/error.h"
#include "importer/job_mapping.h"
#include "importer/network_mapping.h"
#include "net/network.h"

namespace {

using namespace poseidon;
using namespace poseidon::importer;

void import_network(std::string_view content, Remarks& remarks) {
  const CaffeNetwork network(content, "n.prototxt");
  for (const CaffeLayer& layer : network.layers())
    if (layer.is_data_layer()) read_data_layer(layer, remarks);
  const ImportedNetwork imported = map_network(network, {3, 16, 16}, remarks);
  net::Network(imported.json, "network.json", 1).summary();
}

void import_solver(std::string_view content, Remarks& remarks) {
  const TextMessage solver = parse_text_message(content, "s.prototxt");
  map_job({.network_name = "n",
           .solver = MessageReader(&solver, {"s.prototxt", {}}),
           .train = std::nullopt,
           .test = std::nullopt,
           .mean_image = ""},
          remarks);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  SilentLog log;
  Remarks remarks(log, true);
  for (const auto& import : {import_network, import_solver}) {
    try {
      import(content, remarks);
    } catch (const ConfigError&) {
    }
  }
  return 0;
}
