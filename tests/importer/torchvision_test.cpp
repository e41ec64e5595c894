#include <doctest/doctest.h>

#include <algorithm>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "importer/expected_tensors.h"
#include "importer/shipped_networks.h"
#include "importer/torchvision_import.h"
#include "importer/torchvision_state.h"
#include "tests/data/made_files.h"
#include "tests/importer/recording_log.h"
#include "tests/support/error_of.h"
#include "tests/support/folders.h"

namespace poseidon::importer {
namespace {

using data::made::Folder;

net::Network shipped(const std::string& arch) {
  const std::string_view name = torchvision_arch(arch).network;
  return {shipped_network(name), std::string(name) + ".json", 1};
}

/// The state dict of torchvision 0.29: names and shapes (tests/reference/torchvision_golden.py).
Json golden_tensors(const std::string& name) {
  return read_json(std::filesystem::path(test::source_folder()) /
                   ("tests/reference/golden/torchvision/" + name + ".json"))["tensors"];
}

std::vector<StateTensor> state_of(const std::string& name) {
  return state_tensors(torchvision_arch(name), shipped(name));
}

/// Writes a file of these tensors with zero values.
std::filesystem::path made_file(const Folder& folder, std::vector<trainer::StoredTensor> tensors) {
  for (trainer::StoredTensor& tensor : tensors) {
    tensor.bytes = tensor.type == "I64" ? 8 : tensor.type == "BF16" ? 2 : 4;
    for (const int64_t extent : tensor.shape) tensor.bytes *= static_cast<uint64_t>(extent);
    tensor.get = [](std::span<std::byte> to) { std::ranges::fill(to, std::byte{0}); };
  }
  AtomicFile file(folder / "state.safetensors");
  trainer::write_safetensors(file, tensors, Json::object());
  file.commit();
  return folder / "state.safetensors";
}

}  // namespace

TEST_CASE("torchvision's networks have torchvision's tensors in the same order") {
  for (const TorchvisionArch& arch : torchvision_archs()) {
    const std::string name(arch.name);
    CAPTURE(name);
    if (name.ends_with("-plain")) continue;
    const std::vector<StateTensor> state = state_of(name);
    const Json golden = golden_tensors(name);
    REQUIRE(state.size() == golden.size());
    for (size_t i = 0; i < state.size(); ++i) {
      CHECK(state[i].torchvision_name == golden[i][0].get<std::string>());
      CHECK((Json(state[i].shape.extents()) == golden[i][1]));
    }
  }
}

TEST_CASE("the -plain networks have the tensors of the full networks without the heads") {
  for (const auto& network :
       {std::pair<std::string, const char*>("inception_v3", "AuxLogits."), {"googlenet", "aux"}}) {
    const std::string& name = network.first;
    const char* head = network.second;
    std::vector<StateTensor> whole = state_of(name);
    const size_t erased = std::erase_if(whole, [&](const StateTensor& tensor) {
      return tensor.torchvision_name.starts_with(head);
    });
    CHECK(erased > 0);
    const std::vector<StateTensor> plain = state_of(name + "-plain");
    CHECK(std::ranges::equal(whole, plain, {}, &StateTensor::torchvision_name,
                             &StateTensor::torchvision_name));
    CHECK(std::ranges::equal(whole, plain, {}, &StateTensor::poseidon_name,
                             &StateTensor::poseidon_name));
  }
}

TEST_CASE("networks are found by their own names and by torchvision's names") {
  CHECK(torchvision_arch("googlenet").network == "googlenet-torchvision");
  CHECK(torchvision_arch_of("googlenet-torchvision").name == "googlenet");
  // The papers' networks of the same name are different.
  CHECK(error_of<ConfigError>([] { torchvision_arch_of("alexnet"); }).ends_with("got \"alexnet\""));
  const net::Network grouped(test::source_folder() + "/configs/networks/alexnet.json", 1);
  CHECK(error_of<ConfigError>([&] {
          state_tensors(torchvision_arch("alexnet"), grouped);
        }).find("missing: \"fc1\" for \"classifier.1\"") != std::string::npos);
}

TEST_CASE("the error lists missing and unexpected layers of another network") {
  CHECK(
      error_of<ConfigError>([] { torchvision_arch("resnet"); }) ==
      "--arch: expected one of alexnet, efficientnet_b0, googlenet, googlenet-plain, inception_v3, "
      "inception_v3-plain, mobilenet_v2, resnet152, resnet18, resnet50, vgg11, vgg16, vgg19, got "
      "\"resnet\"");
  Json json = shipped_network("vgg11");
  json["layers"][0]["name"] = "first";
  CHECK(error_of<ConfigError>(
            [&] { state_tensors(torchvision_arch("vgg11"), net::Network(json, "n.json", 1)); }) ==
        "n.json: expected the layers of torchvision's vgg11; missing: \"conv1_1\" for "
        "\"features.0\"; not in torchvision: \"first\"");
}

TEST_CASE("the error lists missing, mismatched and unexpected tensors") {
  const Folder folder;
  const std::vector<ExpectedTensor> expected{{"a", "F32", Shape{2, 3}},
                                             {"b", "I64", Shape{}},
                                             {"c", "F32", Shape{4}},
                                             {"d", "F32", Shape{5}}};
  const trainer::SafetensorsFile file(
      made_file(folder, {{.name = "a", .type = "F32", .shape = {3, 2}},
                         {.name = "d", .type = "F32", .shape = {5}},
                         {.name = "b", .type = "F32"},
                         {.name = "e", .type = "I64", .shape = {1}}}));
  CHECK(error_of<ConfigError>([&] { expect_tensors(file, expected, "x"); }) ==
        folder.text() +
            "/state.safetensors: expected the tensors of x; missing: c (F32 4); wrong type or "
            "shape: a (expected F32 2x3, got F32 3x2), b (expected I64 scalar, got F32 scalar); "
            "unexpected: e (I64 1)");
}

TEST_CASE("a state dict has either all counts of batches or none") {
  const Folder folder;
  const std::vector<StateTensor> expected{{"bn.weight", "bn.scale", Shape{1}},
                                          {"bn.num_batches_tracked", "", Shape{}},
                                          {"bn2.num_batches_tracked", "", Shape{}}};
  const TorchvisionArch& arch = torchvision_arch("resnet18");
  const trainer::StoredTensor weight{.name = "bn.weight", .type = "F32", .shape = {1}},
      count{.name = "bn.num_batches_tracked", .type = "I64"};
  const trainer::SafetensorsFile old(made_file(folder, {weight}));
  check_state(arch, expected, old);
  const trainer::SafetensorsFile half(made_file(folder, {weight, count}));
  CHECK(error_of<ConfigError>([&] { check_state(arch, expected, half); })
            .ends_with("expected the tensors of torchvision's resnet18; missing: "
                       "bn2.num_batches_tracked (I64 "
                       "scalar)"));
}

TEST_CASE("a refused import writes no output folder") {
  const Folder folder;
  const TorchvisionImport asked{.arch = "vgg11",
                                .weights = made_file(folder, {{.name = "x", .type = "F32"}}),
                                .output = folder / "out"};
  made::RecordingLog said;
  const std::string message = error_of<ConfigError>([&] { import_torchvision(asked, said); });
  CHECK(message.find("missing: features.0.weight (F32 64x3x3x3), features.0.bias (F32 64)") !=
        std::string::npos);
  CHECK(message.find(" and 17 more; unexpected: ") != std::string::npos);
  CHECK(message.ends_with("; unexpected: x (F32 scalar)"));
  CHECK_FALSE(std::filesystem::exists(asked.output));
}

TEST_CASE("wrapper prefixes are removed, and bf16 tensors are accepted") {
  const Folder folder;
  const std::vector<trainer::StoredTensor> tensors{
      {.name = "module.features.0.weight", .type = "BF16", .shape = {64, 3, 3, 3}}};
  made::RecordingLog said;
  const std::string message = error_of<ConfigError>([&] {
    import_torchvision(
        {.arch = "vgg11", .weights = made_file(folder, tensors), .output = folder / "out"}, said);
  });
  CHECK(message.find("missing: features.0.bias (F32 64)") != std::string::npos);
  CHECK(message.find("wrong type or shape") == std::string::npos);
  CHECK(message.find("unexpected") == std::string::npos);
  REQUIRE(said.notes.size() == 1);
  CHECK(said.notes[0].ends_with(
      "removed the prefix \"module.\" of PyTorch's wrappers from the tensor names"));
}

TEST_CASE("pixels are resized and normalized like in torchvision") {
  for (const TorchvisionArch& arch : torchvision_archs()) {
    constexpr std::array kMean{0.485, 0.456, 0.406}, kDeviation{0.229, 0.224, 0.225};
    const bool inception = arch.name.starts_with("inception");
    const bool transforms = inception || arch.name.starts_with("googlenet");
    CHECK(arch.resize_short == (inception ? 342 : 256));
    for (size_t channel = 0; channel < 3; ++channel)
      for (const double pixel : {0.0, 100.0, 255.0}) {
        double expected = (pixel / 255 - kMean[channel]) / kDeviation[channel];
        if (transforms)  // transform_input
          expected = expected * (kDeviation[channel] / 0.5) + (kMean[channel] - 0.5) / 0.5;
        CHECK((pixel - arch.mean[channel]) / arch.deviation[channel] ==
              doctest::Approx(expected).epsilon(1e-9));
      }
  }
}

}  // namespace poseidon::importer
