#pragma once

#include <memory>

#include "bench/gpu/tally.h"
#include "layers/layer.h"

namespace poseidon::bench {

/// Wraps a layer factory. `tally` then counts the work of each layer under its type and pass:
/// "convolution forward". `tally` must outlive the returned factory and its layers.
std::unique_ptr<layers::LayerFactory> make_counted_factory(
    std::unique_ptr<layers::LayerFactory> factory, Tally& tally);

}  // namespace poseidon::bench
