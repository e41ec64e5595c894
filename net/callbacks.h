#pragma once

#include <functional>

namespace poseidon::net {

/// Called before the forward pass of a layer with parameters or statistics. The callback blocks
/// until the layer may read its parameters and statistics, and may overwrite its gradients and
/// contributions.
using Gate = std::function<void(int layer)>;
/// Called in the backward pass when all gradients of a layer with learned parameters are final,
/// last layer first. For a layer that writes factors: called when its factors are final. The
/// backward pass may still read the parameters, so they must not change before the next call of
/// BetweenLayers.
using OnGradient = std::function<void(int layer)>;
/// Called in the backward pass after each layer or group of layers. The parameters of all layers
/// announced so far (OnGradient) may change now.
using BetweenLayers = std::function<void()>;

}  // namespace poseidon::net
