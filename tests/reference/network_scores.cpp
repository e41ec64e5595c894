// network_scores NETWORK WEIGHTS SAMPLES LAYER...: writes the outputs of the layers in test phase
// to standard output, as fp32, layer after layer. SAMPLES is a file of plain fp32. For scripts that
// compare with other frameworks.

#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "core/cpu/cpu_device.h"
#include "core/file.h"
#include "layers/cpu/cpu_layer.h"
#include "net/net.h"
#include "trainer/state/run_tensors.h"

namespace {

using namespace poseidon;

std::vector<float> read_floats(const std::filesystem::path& path) {
  std::vector<std::byte> bytes;
  read_file(path, uint64_t{1} << 32, bytes);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

void print_scores(const std::string& file, const std::string& weights,
                  const std::vector<float>& samples, const std::vector<std::string>& layers) {
  const int64_t batch =
      static_cast<int64_t>(samples.size()) / net::Network(file, 1).input().count();
  const net::Network network(file, batch);
  cpu::CpuDevice device(0);
  const auto factory = layers::cpu::make_cpu_factory(device);
  net::Net net(network, *factory, {.training = false, .keep = layers});
  net.values().initialize(1);
  const trainer::RunTensors tensors = trainer::weights_of(net);
  if (!tensors.weights.empty()) trainer::load_weights(weights, tensors);
  const std::vector<int32_t> labels(static_cast<size_t>(batch), 0);  // losses need labels
  net.set_input(samples);
  net.forward({.phase = layers::Phase::kTest, .labels = labels});
  for (const std::string& layer : layers) {
    const std::vector<float> scores = net.output(layer);
    std::cout.write(reinterpret_cast<const char*>(scores.data()),
                    static_cast<std::streamsize>(scores.size() * sizeof(float)));
  }
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> given(arguments + 1, arguments + count);
  if (given.size() < 4) {
    std::cerr << "network_scores NETWORK WEIGHTS SAMPLES LAYER...\n";
    return 2;
  }
  try {
    print_scores(given[0], given[1], read_floats(given[2]), {given.begin() + 3, given.end()});
  } catch (const std::exception& error) {
    std::cerr << "network_scores: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
