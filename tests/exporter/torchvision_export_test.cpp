#include "exporter/torchvision_export.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "core/json.h"
#include "importer/torchvision_import.h"
#include "tests/data/made_files.h"
#include "tests/exporter/made_state.h"
#include "tests/exporter/made_weights.h"
#include "tests/importer/recording_log.h"
#include "tests/support/error_of.h"

namespace poseidon::exporter {
namespace {

using data::made::Folder;
using RecordingLog = importer::made::RecordingLog;

/// The bytes of a tensor in the file.
data::made::Bytes bytes_of(const trainer::SafetensorsFile& file, const std::string& name) {
  const auto* entry = file.find(name);
  REQUIRE_MESSAGE(entry != nullptr, name);
  data::made::Bytes bytes(entry->bytes);
  file.file().read(entry->offset, bytes);
  return bytes;
}

/// resnet18 with few planes in place of 64, 128, ..., so that its state dict has a few KiB.
Json narrow_resnet() {
  Json json = importer::shipped_network("resnet18");
  std::string text = json.dump();
  for (const auto& [wide, narrow] :
       {std::pair("64", "2"), {"128", "4"}, {"256", "6"}, {"512", "8"}})
    for (const std::string key : {"\"planes\":", "\"outputs\":"}) {
      const std::string from = key + wide;
      for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + 1))
        text.replace(at, from.size(), key + narrow);
    }
  return Json::parse(text);
}

}  // namespace

TEST_CASE("import and export reproduce a state dict bit for bit and in order") {
  const Folder folder;
  const auto& arch = importer::torchvision_arch("mobilenet_v2");
  const std::filesystem::path given = folder / "given.safetensors",
                              back = folder / "back.safetensors";
  Json json = importer::shipped_network("mobilenet_v2");
  json["layers"][json["layers"].size() - 2]["outputs"] = 10;
  const net::Network network(json, "n.json", 1);
  made::write_state(given, importer::state_tensors(arch, network));
  RecordingLog said;
  const importer::ImportReport imported = importer::import_torchvision(
      {.arch = "mobilenet_v2", .weights = given, .output = folder / "out", .classes = 10}, said);
  CHECK(imported.parameters == network.parameter_count());
  const TrainedWeights trained(folder / "out", "", said);
  const TorchvisionReport report = export_torchvision(trained, {.arch = "", .output = back}, said);
  CHECK(report.arch == "mobilenet_v2");
  CHECK(report.tensors == 314);
  CHECK(said.warnings.empty());
  const trainer::SafetensorsFile first(given), second(back);
  REQUIRE(first.entries().size() == second.entries().size());
  for (size_t i = 0; i < first.entries().size(); ++i) {
    const auto &a = first.entries()[i], &b = second.entries()[i];
    CHECK(a.name == b.name);
    CHECK(a.type == b.type);
    CHECK(a.shape == b.shape);
    CHECK(a.offset - first.entries()[0].offset == b.offset - second.entries()[0].offset);
    CHECK((bytes_of(first, a.name) == bytes_of(second, b.name)));
  }
}

TEST_CASE("without imported counts, num_batches_tracked is the number of steps, here 0") {
  const made::Weights weights(narrow_resnet());
  RecordingLog said;
  const TrainedWeights trained(weights.path(), "", said);
  export_torchvision(trained, {.arch = "", .output = weights.folder / "out"}, said);
  const trainer::SafetensorsFile file(weights.folder / "out");
  CHECK(file.entries().size() == 122);
  const auto* count = file.find("bn1.num_batches_tracked");
  REQUIRE(count != nullptr);
  CHECK(file.read_integers(*count) == std::vector<int64_t>{0});
  CHECK(file.read(*file.find("layer2.0.downsample.1.running_var"))[1] ==
        made::Weights::counting("stage2_first.project_bn.running_var", 1));
}

TEST_CASE("an epsilon that differs from torchvision's causes a warning") {
  const auto warnings = [](const char* epsilon) {
    Json json = narrow_resnet();
    json["defaults"]["batch_norm"]["epsilon"] = Json::parse(epsilon);
    const made::Weights weights(json);
    RecordingLog said;
    const TrainedWeights trained(weights.path(), "", said);
    export_torchvision(trained, {.arch = "resnet18", .output = weights.folder / "out"}, said);
    return said.warnings;
  };
  CHECK(warnings("0.00001").empty());
  CHECK(
      warnings("0.001") ==
      std::vector<std::string>{"batch_norm \"bn1\": torchvision's resnet18 has the epsilon 1e-05, "
                               "this network 0.001: scores differ unless you create torchvision's "
                               "model with norm_layer=partial(torch.nn.BatchNorm2d, eps=0.001)"});
}

TEST_CASE("missing weights and weights of another network are refused") {
  const Json json = Json::parse(
      R"({"name": "n", "input": {"channels": 1}, "layers": [{"name": "a", "type": "linear", "outputs": 2}]})");
  const made::Weights weights(json);
  RecordingLog said;
  const auto fault = [&](const std::filesystem::path& source,
                         const std::filesystem::path& network = "") {
    std::string message = error_of<ConfigError>([&] { TrainedWeights(source, network, said); });
    const std::string folder = weights.folder.text();
    for (size_t at = message.find(folder); at != std::string::npos; at = message.find(folder))
      message.erase(at, folder.size() + 1);
    return message;
  };
  CHECK(fault(weights.folder / "none") == "none: no such folder or file");
  write_file(weights.folder / "other.json",
             Json{{"name", "m"}, {"input", {{"channels", 3}}}, {"layers", json["layers"]}}.dump());
  CHECK(fault(weights.folder / "weights.safetensors", weights.folder / "other.json") ==
        "weights.safetensors: expected the tensors of network \"m\"; wrong type or shape: a.weight "
        "(expected F32 2x3, got F32 2x1)");
  std::filesystem::rename(weights.folder / "network.json", weights.folder / "moved.json");
  CHECK(fault(weights.folder / "weights.safetensors")
            .starts_with("weights.safetensors: expected network.json in "));
  std::filesystem::remove(weights.folder / "weights.safetensors");
  CHECK(fault(weights.path()) ==
        ": expected a run directory with a checkpoint, or a folder with weights.safetensors");
  const made::Weights vgg(json);
  CHECK(error_of<ConfigError>([&] {
          const TrainedWeights trained(vgg.path(), "", said);
          export_torchvision(trained, {.arch = "", .output = vgg.folder / "out"}, said);
        }).ends_with("got \"n\""));
}

}  // namespace poseidon::exporter
