#include "importer/torchvision_import.h"

#include "core/as_config_error.h"
#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "importer/json_text.h"
#include "importer/new_folder.h"
#include "importer/shipped_networks.h"
#include "importer/torchvision_state.h"
#include "trainer/job/config.h"

namespace poseidon::importer {

namespace {

constexpr int64_t kTorchvisionClasses = 1000;

/// Sets the outputs of every linear layer that has torchvision's number of classes to `classes`.
void set_classes(Json& json, int64_t classes) {
  if (json.is_object() && json.value("type", Json()) == "linear" &&
      json.value("outputs", Json()) == kTorchvisionClasses)
    json["outputs"] = classes;
  if (json.is_structured())
    for (Json& member : json) set_classes(member, classes);
}

Json network_of(const TorchvisionArch& arch, int64_t classes) {
  Json json = shipped_network(arch.network);
  if (classes != kTorchvisionClasses) set_classes(json, classes);
  if (arch.epsilon > 0) {
    Json& keys = json["defaults"]["batch_norm"];
    keys["epsilon"] = arch.epsilon;
    keys["momentum"] = kBatchNormMomentum;
  }
  return json;
}

Json dataset_of(const char* folder, const Json& transform) {
  return {{"type", "images"},
          {"path", std::string("${POSEIDON_DATA}/") + folder},
          {"transform", transform}};
}

/// Creates a job that preprocesses photographs like torchvision and fine-tunes with a small
/// learning rate.
Json job_of(const TorchvisionArch& arch, const net::Network& network) {
  const int64_t crop = network.input().height();
  Json training{{"random_resized_crop", {{"size", crop}}}, {"mirror", true}};
  Json testing{{"resize_short", arch.resize_short}, {"crop", crop}};
  for (Json* transform : {&training, &testing}) {
    (*transform)["mean"] = arch.mean;
    (*transform)["std"] = arch.deviation;
  }
  return {{"name", network.name()},
          {"network", "network.json"},
          {"data",
           {{"train", dataset_of("imagenet/train", training)},
            {"test", dataset_of("imagenet/val", testing)},
            {"batch_per_worker", 32}}},
          {"optimizer", {{"type", "sgd"}, {"learning_rate", 0.001}, {"momentum", 0.9}}},
          {"train", {{"epochs", 1}}}};
}

/// Returns Poseidon's tensors: all parameters, then all statistics, each in the network's order. A
/// tensor is read from `file` when the weights file is written.
std::vector<trainer::NamedTensor> tensors_of(const net::Network& network,
                                             const std::vector<StateTensor>& state,
                                             const trainer::SafetensorsFile& file) {
  std::vector<trainer::NamedTensor> tensors;
  const auto put = [&](const std::string& name) {
    const auto found = std::ranges::find(state, name, &StateTensor::poseidon_name);
    check(found != state.end(), "every tensor of the network has one of torchvision's");
    const auto* entry = file.find(found->torchvision_name);
    tensors.push_back(
        {.name = name,
         .shape = found->shape,
         .get = [&file,
                 entry](std::span<float> to) { std::ranges::copy(file.read(*entry), to.begin()); },
         .set = nullptr});
  };
  for (const net::Node& node : network.nodes())
    for (const auto& spec : node.parameters()) put(node.definition->name + "." + spec.name);
  for (const net::Node& node : network.nodes())
    for (const auto& spec : node.definition->statistics())
      put(node.definition->name + "." + spec.name);
  return tensors;
}

/// Returns the values of num_batches_tracked, such as "[5, 5]", in torchvision's order; "" if the
/// file has none.
std::string counts_of(const std::vector<StateTensor>& state, const trainer::SafetensorsFile& file) {
  Json counts = Json::array();
  for (const StateTensor& tensor : state)
    if (const auto* entry = file.find(tensor.torchvision_name);
        entry != nullptr && tensor.counts_batches())
      counts.push_back(file.read_integers(*entry).at(0));
  return counts.empty() ? "" : counts.dump();
}

}  // namespace

ImportReport import_torchvision(const TorchvisionImport& options, Log& log) {
  const TorchvisionArch& arch = torchvision_arch(options.arch);
  if (!options.force) check_folder_is_empty(options.output);
  const Json json = network_of(arch, options.classes);
  const net::Network network(json, (options.output / "network.json").string(), 1);
  const std::vector<StateTensor> state = state_tensors(arch, network);
  auto file = as_config_error([&] { return trainer::SafetensorsFile(options.weights); });
  if (const std::string removed = file.remove_wrappers(); !removed.empty())
    log.info(text(options.weights.string(), ": removed the prefix \"", removed,
                  "\" of PyTorch's wrappers from the tensor names"));
  check_state(arch, state, file);
  const std::vector<trainer::NamedTensor> tensors = tensors_of(network, state, file);
  const Json job = job_of(arch, network);
  trainer::read_job_config(job, (options.output / "job.json").string());

  Json metadata{{"format", "pt"}, {"producer", "poseidon"}};
  if (const std::string counts = counts_of(state, file); !counts.empty())
    metadata[kCountsKey] = counts;
  prepare_output_folder(options.output);
  AtomicFile weights(options.output / "weights.safetensors");
  trainer::write_safetensors(weights, tensors, metadata);
  weights.commit();
  write_file(options.output / "job.json", json_text(job));
  write_file(options.output / "network.json", json_text(json));
  return {.network = network.name(),
          .layers = network.nodes().size(),
          .parameters = network.parameter_count(),
          .job = true,
          .tensors = tensors.size()};
}

}  // namespace poseidon::importer
