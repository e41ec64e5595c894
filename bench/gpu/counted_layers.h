#pragma once

#include <memory>

#include "bench/gpu/tally.h"
#include "layers/layer.h"

namespace poseidon::bench {

/// Makes the layers that `factory` makes, whose work is then told by their type and pass:
/// "convolution forward". `tally` must outlive it.
std::unique_ptr<layers::LayerFactory> make_counted_factory(
    std::unique_ptr<layers::LayerFactory> factory, Tally& tally);

}  // namespace poseidon::bench
