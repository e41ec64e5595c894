#pragma once

#include <functional>

namespace poseidon::net {

/// Called in the forward pass before each layer that reads parameters or statistics. `layer` is the
/// layer that owns them. The callback waits, or makes the device wait, until the pass may read
/// these parameters and statistics. The pass may then also overwrite their gradients and
/// contributions.
using Gate = std::function<void(int layer)>;
/// Called in the backward pass for each layer with learned parameters, last layer first, when all
/// its gradients are final. For a layer that writes factors: called when its factors are final. On
/// an asynchronous device, the work that computes the gradients or factors has been issued, but it
/// may not be complete. The backward pass may still read the layer's parameters, so they must not
/// change before the next call of BetweenLayers.
using OnGradient = std::function<void(int layer)>;
/// Called in the backward pass after each layer, or after each group of layers (net/passes.h). The
/// parameters of all layers announced so far (OnGradient) may change now.
using BetweenLayers = std::function<void()>;

}  // namespace poseidon::net
