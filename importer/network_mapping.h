#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/extras.h"
#include "core/json.h"
#include "importer/blob_graph.h"
#include "importer/caffe_data.h"

namespace poseidon::importer {

/// A layer of ours, and the layers of Caffe's that its tensors are stored with. One that reads
/// something else in tests is two, of one name.
struct ImportedLayer {
  Json json;
  const CaffeLayer* source;
  PhaseSet phases;
  const CaffeLayer* scale = nullptr;  ///< of a batch norm: the Scale that was joined to it

  std::string name() const { return json["name"].get<std::string>(); }
};

struct ImportedNetwork {
  Json json;                          ///< as a network file has it
  std::vector<ImportedLayer> layers;  ///< in order of json["layers"]
};

/// Makes our network of the layers that take part in a phase. `network` must outlive the result.
/// `extras` tell the shapes of values that data layers give beside images and labels, by their
/// names in Caffe's file. Throws ConfigError.
ImportedNetwork map_network(const CaffeNetwork& network, SampleShape input, Remarks& remarks,
                            std::vector<Extra> extras = {});

}  // namespace poseidon::importer
