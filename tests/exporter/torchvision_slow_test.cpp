// Full-size networks imported from torchvision: their scores, compared with torchvision's from
// tests/reference/torchvision_golden.py.

#include <doctest/doctest.h>

#include <cmath>

#include "core/cpu/cpu_device.h"
#include "core/json.h"
#include "importer/torchvision_import.h"
#include "layers/cpu/cpu_layer.h"
#include "net/net.h"
#include "tests/data/made_files.h"
#include "tests/exporter/made_state.h"
#include "tests/importer/recording_log.h"
#include "tests/support/folders.h"
#include "trainer/state/run_tensors.h"

namespace poseidon::exporter {
namespace {

/// The scores of one sample after an import of the state dict.
std::vector<float> imported_scores(const std::string& name) {
  const data::made::Folder folder;
  const importer::TorchvisionArch& arch = importer::torchvision_arch(name);
  const net::Network shipped(importer::shipped_network(arch.network), name, 1);
  made::write_state(folder / "state", importer::state_tensors(arch, shipped));
  importer::made::RecordingLog said;
  importer::import_torchvision(
      {.arch = name, .weights = folder / "state", .output = folder / "out"}, said);
  const net::Network network(folder / "out/network.json", 1);
  cpu::CpuDevice device(0);
  const auto factory = layers::cpu::make_cpu_factory(device);
  const std::string last = name == "alexnet" ? "fc3" : "fc";
  net::Net net(network, *factory, {.training = false, .keep = {last}});
  net.values().initialize(1);
  trainer::load_weights(folder / "out/weights.safetensors", trainer::weights_of(net));
  std::vector<float> sample(static_cast<size_t>(network.input().count()));
  RandomStream random = made::random_stream(1);
  for (float& value : sample) value = random.next_uniform(-1, 1);
  net.set_input(sample);
  const std::vector<int32_t> labels{0};
  net.forward({.phase = layers::Phase::kTest, .labels = labels});
  return net.output(last);
}

void compare_with_torchvision(const std::string& name) {
  const Json golden = read_json(std::filesystem::path(test::source_folder()) /
                                ("tests/reference/golden/torchvision/" + name + ".json"));
  const auto expected = golden["scores"].get<std::vector<double>>();
  const std::vector<float> scores = imported_scores(name);
  REQUIRE(scores.size() == expected.size());
  double greatest = 0, distance = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    greatest = std::max(greatest, std::abs(expected[i]));
    distance = std::max(distance, std::abs(scores[i] - expected[i]));
  }
  CAPTURE(distance);
  CHECK(distance <= 1e-4 * greatest);
}

}  // namespace

TEST_CASE("an imported alexnet matches torchvision") { compare_with_torchvision("alexnet"); }
TEST_CASE("an imported googlenet matches torchvision") { compare_with_torchvision("googlenet"); }
TEST_CASE("an imported efficientnet_b0 matches torchvision") {
  compare_with_torchvision("efficientnet_b0");
}
TEST_CASE("an imported inception_v3 matches torchvision") {
  compare_with_torchvision("inception_v3");
}
TEST_CASE("an imported mobilenet_v2 matches torchvision") {
  compare_with_torchvision("mobilenet_v2");
}
TEST_CASE("an imported resnet18 matches torchvision") { compare_with_torchvision("resnet18"); }
TEST_CASE("an imported resnet50 matches torchvision") { compare_with_torchvision("resnet50"); }

}  // namespace poseidon::exporter
