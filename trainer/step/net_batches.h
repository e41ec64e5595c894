#pragma once

#include "core/buffer_cache.h"
#include "data/loader.h"
#include "net/net.h"

/// Connects a data loader to the net that reads its batches.
namespace poseidon::trainer {

/// Memory for batches that the net's device can read. Batches are pixels if the net accepts pixels.
/// The net must outlive the loader.
inline data::BatchMemory memory_for(net::Net& net) {
  return {.allocate =
              [&device = net.device()](size_t bytes, std::string_view purpose) {
                return device.allocate(bytes, MemoryKind::kStaging, purpose);
              },
          .pixels = net.batch_receiver().accepts_pixels(net.input_shape())};
}

/// A cache of memory for batches of successive loaders. The net must outlive the cache.
inline BufferCache batch_cache(net::Net& net) { return BufferCache(memory_for(net).allocate); }

/// Like memory_for(net), but the cache allocates the memory. The cache must outlive the loader.
inline data::BatchMemory memory_for(net::Net& net, BufferCache& cache) {
  data::BatchMemory memory = memory_for(net);
  memory.allocate = [&cache](size_t bytes, std::string_view purpose) {
    return cache.allocate(bytes, purpose);
  };
  return memory;
}

/// Sets `batch`, which the loader returned last, as the net's input. The loader does not reuse the
/// batch's memory until the device has read it.
inline void set_input(net::Net& net, const data::Batch& batch, data::Loader& loader) {
  loader.keep_until(
      net.batch_receiver().set(batch.values, batch.extras, batch.labels, batch.mixup_labels));
}

}  // namespace poseidon::trainer
