#pragma once

#include <string>
#include <vector>

#include "core/json.h"

namespace poseidon::net {

/// One layer of a network file after blocks were expanded: plain JSON, with the name it has in the
/// whole network and the names of its inputs resolved.
struct LayerEntry {
  Json json;                        ///< without name and inputs
  JsonPlace place;                  ///< where it stands in the file
  std::string name;                 ///< "stage1.0.conv1"
  std::vector<std::string> inputs;  ///< full names; kInputName for the network's input
};

inline constexpr const char* kInputName = "input";

/// Expands the "layers" of a network: puts in the layers of blocks with their parameters, fills in
/// type defaults, and gives every layer its full name and inputs. Throws ConfigError.
std::vector<LayerEntry> expand_layers(const Json& network, const std::string& file);

}  // namespace poseidon::net
