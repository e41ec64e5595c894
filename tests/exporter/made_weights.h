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

/// A folder with network.json and weights.safetensors. value(name, index) gives each element of
/// each tensor.
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

  /// Values that differ between tensors and between elements.
  static float counting(const std::string& name, size_t index) {
    return static_cast<float>(index) + 0.25F * static_cast<float>(name.size());
  }

  std::filesystem::path path() const { return folder / ""; }

  data::made::Folder folder;
};

}  // namespace poseidon::exporter::made
