#pragma once

#include <memory>

#include "bench/gpu/cost_counter.h"
#include "layers/layer.h"

namespace poseidon::bench {

/// Wraps a layer factory. `cost_counter` then has one part for each layer type and pass, such as
/// "convolution forward". `cost_counter` must outlive the returned factory and its layers.
std::unique_ptr<layers::LayerFactory> make_counted_factory(
    std::unique_ptr<layers::LayerFactory> factory, CostCounter& cost_counter);

}  // namespace poseidon::bench
