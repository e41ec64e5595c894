#pragma once

#include <memory>

#include "core/device.h"
#include "layers/layer.h"
#include "layers/update.h"

namespace poseidon::layers {

/// A device with its layer factory and its optimizer arithmetic. The compute thread creates and
/// uses the backend.
struct Backend {
  std::unique_ptr<Device> device;
  std::unique_ptr<LayerFactory> factory;
  std::unique_ptr<Updater> updater;
};

}  // namespace poseidon::layers
