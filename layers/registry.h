#pragma once

#include <memory>
#include <string>
#include <vector>

#include "layers/layer.h"

namespace poseidon::layers {

/// A layer type that a network file may use.
struct LayerType {
  std::string name;
  std::string doc;
  std::unique_ptr<Definition> (*make)();
};

/// All layer types, in alphabetical order.
const std::vector<LayerType>& layer_types();

/// Creates a definition of this type. Null: the type is unknown.
std::unique_ptr<Definition> make_definition(const std::string& type);

}  // namespace poseidon::layers
