#include "trainer/inference/extract.h"

#include <algorithm>

#include "core/error.h"
#include "trainer/inference/feature_file.h"
#include "trainer/inference/trained_net.h"

namespace poseidon::trainer {

namespace {

/// Up to four names of layers, the most similar to `given` first.
std::string names_near(const std::string& given, const net::Network& network) {
  constexpr int kMost = 4;
  std::vector<std::string> names;
  for (const net::Node& node : network.in_test().nodes()) names.push_back(node.definition->name);
  std::string near;
  for (int count = 0; count < kMost; ++count) {
    const std::string name = nearest(given, names);
    if (name.empty()) break;
    near += (near.empty() ? "" : ", ") + shown(name);
    std::erase(names, name);
  }
  return near;
}

const net::Node& node_of(const std::string& layer, const net::Network& network) {
  if (const std::optional<int> node = network.in_test().index_of(layer))
    return network.in_test().nodes()[static_cast<size_t>(*node)];
  if (network.index_of(layer))
    throw ConfigError("--extract: expected layers that are in phase \"test\", got " + shown(layer) +
                      ", which is only in training");
  const std::string near = names_near(layer, network);
  throw ConfigError(text("--extract: expected layers of network \"", network.name(), "\"",
                         near.empty() ? ", which --check lists" : ", such as " + near, ", got ",
                         shown(layer)));
}

/// A feature for each of the layers. Throws ConfigError for a layer that cannot be extracted.
std::vector<Feature> features_of(const std::vector<std::string>& layers,
                                 const net::Network& network) {
  std::vector<Feature> features;
  for (const std::string& layer : layers) {
    const Shape& output = node_of(layer, network).output;
    if (std::ranges::count(layers, layer) > 1)
      throw ConfigError("--extract: expected each layer once, got " + shown(layer) + " twice");
    if (output.samples() != network.batch())
      throw ConfigError(text("--extract: expected layers with one output per sample, got ",
                             shown(layer), " with output ", output.text(), " for ", network.batch(),
                             " samples"));
    features.push_back(
        {.layer = layer, .shape = {output.channels(), output.height(), output.width()}});
  }
  return features;
}

Json layers_json(const std::vector<Feature>& features, int64_t samples) {
  Json layers = Json::array();
  for (const Feature& feature : features) {
    const Shape& shape = feature.shape;
    layers.push_back({{"name", feature.layer}, {"shape", {samples, shape[0], shape[1], shape[2]}}});
  }
  return layers;
}

}  // namespace

Json extract(const Job& job, const RunOptions& options, const std::vector<std::string>& layers,
             const std::filesystem::path& path, Console& console) {
  if (!job.config.data.has_test)
    throw ConfigError(job.file + ": /data: --extract requires \"test\"");
  const std::vector<Feature> features = features_of(layers, *job.network);
  const PreparedData data = open_data(job, DataPart::kTest, console);
  TrainedNet trained(job, options, layers, console);
  FeatureFile file(path, features, data.dataset->size());
  const auto tested = [&](const data::Batch& batch) {
    const auto samples = static_cast<size_t>(batch.valid);
    for (size_t i = 0; i < features.size(); ++i) {
      const std::vector<float> values = trained.net().output(features[i].layer);
      const auto count = static_cast<size_t>(features[i].shape.count());
      file.add(i, std::span(values).first(samples * count));
    }
    file.add_labels(batch.labels.first(samples));
  };
  const auto result =
      evaluate(trained.net(), data, test_options(job, options, console, tested), console);
  console.finish();
  if (!result) throw RunError("the extraction was stopped; no file was written");
  file.commit();
  return {{"name", job.config.name},
          {"step", trained.step() ? Json(*trained.step()) : Json()},
          {"weights", trained.weights().string()},
          {"file", path.string()},
          {"samples", result->samples},
          {"layers", layers_json(features, result->samples)}};
}

}  // namespace poseidon::trainer
