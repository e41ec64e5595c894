#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/auxiliary_input.h"
#include "core/json.h"
#include "layers/layer.h"

namespace poseidon::net {

/// One layer of a network file after the expansion of blocks. A full name is unique in the expanded
/// network, because it begins with the names of all uses of blocks that contain the layer.
struct LayerEntry {
  Json json;         ///< without the keys name, input, inputs, shares and phase
  JsonPath place;    ///< position in the file
  std::string name;  ///< full name, such as "stage1.0.conv1"
  /// Full names of layers, kInputName for the network's input, kLabelName for the samples' labels,
  /// or names of auxiliary inputs.
  std::vector<std::string> inputs;
  /// Full name of the layer with which this layer shares parameters; "": none. That layer may
  /// itself share the parameters of a third layer. If a use of a block shares with another use,
  /// `shares` is set for each layer of the block, even for a layer without parameters.
  std::string shares;
  /// Keys whose values come from the defaults of the layer's type; see defaults_of().
  std::vector<std::string> defaulted;
};

inline constexpr const char* kInputName = "input";
inline constexpr const char* kLabelName = "label";

/// The position of a layer type's defaults in the network file.
inline JsonPath defaults_of(const std::string& file, const std::string& type) {
  return JsonPath{file, "/defaults"}.at(type);
}

/// The phase's name in a network file: "train", "test".
const std::string& name_of(layers::Phase phase);
/// The values of a layer's "phase" key: the phases in the order of layers::Phase, then "both".
const std::vector<std::string>& phase_names();

/// Expands the "layers" of a network for one phase. Omits layers that are only in the other phase.
/// Replaces blocks by their layers, substitutes the blocks' parameters, and adds the defaults of
/// layer types. Determines the full names of layers and inputs. `extras` are the network's
/// auxiliary inputs; layers in blocks read them by the same names. Throws ConfigError.
std::vector<LayerEntry> expand_layers(const Json& network, const std::string& file,
                                      layers::Phase phase, std::span<const AuxiliaryInput> extras);

}  // namespace poseidon::net
