#pragma once

#include "data/loader.h"
#include "net/net.h"

/// Between a loader and the net that its batches are for.
namespace poseidon::trainer {

/// Batches lie where the net's device reads them, as pixels where it takes them. The net must
/// outlive the loader.
inline data::BatchMemory memory_for(net::Net& net) {
  return {.take =
              [&device = net.device()](size_t bytes, std::string_view purpose) {
                return device.allocate(bytes, Place::kStaging, purpose);
              },
          .pixels = net.reception().takes_pixels(net.input_shape())};
}

/// Gives the net the batch that the loader gave last.
inline void set_input(net::Net& net, const data::Batch& batch, data::Loader& loader) {
  loader.keep_until(net.reception().set(batch.values, batch.extras, batch.labels, batch.mixtures));
}

}  // namespace poseidon::trainer
