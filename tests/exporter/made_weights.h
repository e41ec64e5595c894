#pragma once

#include <functional>

#include "core/file.h"
#include "core/json.h"
#include "importer/expected_tensors.h"
#include "net/network.h"
#include "tests/data/made_files.h"
#include "trainer/state/safetensors.h"

/// Networks with weights, as files.
namespace poseidon::exporter::made {

/// network.json and weights.safetensors in a folder, each tensor by `value`, a function of its name
/// and of an element's place.
struct Weights {
  using Value = std::function<float(const std::string& name, size_t index)>;

  explicit Weights(const Json& json, const Value& value = counting) {
    data::made::write(folder / "network.json", data::made::bytes_of(json.dump()));
    const net::Network network(folder / "network.json", 1);
    std::vector<trainer::NamedTensor> tensors;
    for (const importer::ExpectedTensor& tensor : importer::weights_of(network))
      tensors.push_back({.name = tensor.name,
                         .shape = tensor.shape,
                         .get =
                             [name = tensor.name, &value](std::span<float> out) {
                               for (size_t i = 0; i < out.size(); ++i) out[i] = value(name, i);
                             },
                         .set = nullptr});
    AtomicFile file(folder / "weights.safetensors");
    trainer::write_safetensors(file, tensors, {{"format", "pt"}});
    file.commit();
  }

  /// Other values for each tensor.
  static float counting(const std::string& name, size_t index) {
    return static_cast<float>(index) + 0.25F * static_cast<float>(name.size());
  }

  std::filesystem::path path() const { return folder / ""; }

  data::made::Folder folder;
};

}  // namespace poseidon::exporter::made
