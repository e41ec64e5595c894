#pragma once

#include <functional>

namespace poseidon::net {

/// Called before the forward pass of a layer that has parameters or statistics: returns when they
/// may be read and its gradients and contributions overwritten.
using Gate = std::function<void(int layer)>;
/// Called in backward as soon as all gradients of a layer with learned parameters are final, last
/// layer first; of a layer that gives factors, as soon as these are. Its parameters may still be
/// read: they must not change before BetweenLayers.
using OnGradient = std::function<void(int layer)>;
/// Called in backward after each layer, or after some: parameters of the layers announced so far
/// may change.
using BetweenLayers = std::function<void()>;

}  // namespace poseidon::net
