#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/auxiliary_input.h"
#include "core/json.h"
#include "importer/blob_graph.h"
#include "importer/caffe_data.h"

namespace poseidon::importer {

/// A Poseidon layer and the Caffe layers that store its tensors. A Caffe layer whose inputs differ
/// between the phases may become two Poseidon layers with the same name.
struct ImportedLayer {
  Json json;
  const CaffeLayer* source;
  PhaseSet phases;
  const CaffeLayer* scale = nullptr;  ///< Scale layer that was merged into this batch norm

  std::string name() const { return json["name"].get<std::string>(); }
};

struct ImportedNetwork {
  Json json;                          ///< content of a network file
  std::vector<ImportedLayer> layers;  ///< in the order of json["layers"]
};

/// Creates a Poseidon network for samples of the shape `input`. `network` must outlive the result.
/// `extras`: auxiliary inputs whose shapes the user states, with their blob names. Throws
/// ConfigError with file and position if the network is invalid or has no equivalent.
ImportedNetwork map_network(const CaffeNetwork& network, SampleShape input, Remarks& remarks,
                            std::vector<AuxiliaryInput> extras = {});

}  // namespace poseidon::importer
