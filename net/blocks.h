#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/extras.h"
#include "core/json.h"
#include "layers/layer.h"

namespace poseidon::net {

/// One layer of a network file after blocks were expanded: plain JSON, with the name it has in the
/// whole network and the names of its inputs resolved.
struct LayerEntry {
  Json json;         ///< without name and inputs
  JsonPlace place;   ///< where it stands in the file
  std::string name;  ///< "stage1.0.conv1"
  /// Full names; kInputName for the network's input, kLabelName for the samples' labels, and the
  /// names of further inputs.
  std::vector<std::string> inputs;
  /// Full name of the layer whose parameters it uses; "" for its own. Of a layer in a block that
  /// shares with another use of the block, also where it has none.
  std::string shares;
  /// The keys that its type's defaults gave it: their values stand under defaults_of().
  std::vector<std::string> defaulted;
};

inline constexpr const char* kInputName = "input";
inline constexpr const char* kLabelName = "label";

/// Where the file has the defaults of a type of layer.
inline JsonPlace defaults_of(const std::string& file, const std::string& type) {
  return JsonPlace{file, "/defaults"}.at(type);
}

/// As a layer says it: "train", "test".
const std::string& name_of(layers::Phase phase);
/// What a layer may say of its phase, in the order of layers::Phase, and then that it is in both.
const std::vector<std::string>& phase_names();

/// Expands the "layers" of a network that are in a phase: puts in the layers of blocks with their
/// parameters, fills in type defaults, and gives every layer its full name and inputs. `extras` are
/// the network's further inputs, which layers of blocks read by the same names. Throws ConfigError.
std::vector<LayerEntry> expand_layers(const Json& network, const std::string& file,
                                      layers::Phase phase, std::span<const Extra> extras);

}  // namespace poseidon::net
