#pragma once

#include <functional>

namespace poseidon::net {

/// Called before the forward pass of a layer with parameters or statistics. It returns when the
/// layer may read them and may overwrite its gradients and contributions.
using Gate = std::function<void(int layer)>;
/// Called in the backward pass when all gradients of a layer with learned parameters are final,
/// last layer first. If the layer writes factors, it is called when the factors are final. The
/// parameters may still be read, so they must not change before BetweenLayers.
using OnGradient = std::function<void(int layer)>;
/// Called in the backward pass after each layer, or after several. The parameters of layers
/// announced so far (OnGradient) may change now.
using BetweenLayers = std::function<void()>;

}  // namespace poseidon::net
