#pragma once

#include <cstdint>
#include <vector>

#include "comm/exchange/exchange_context.h"
#include "comm/plan/counters.h"
#include "comm/plan/plan.h"
#include "comm/plan/shard_parts.h"
#include "comm/wire/outlet.h"
#include "comm/wire/slab_pool.h"

namespace poseidon::comm {

/// The state that all chunks of one server share: slabs, outlet and traffic counters.
struct ServerContext {
  const Plan& plan;
  const uint32_t rank;
  const ExchangeOptions options;
  Outlet& outlet;
  const PartTree tree;  ///< over the parts of all workers
  SlabPool pool = SlabPool();
  TrafficCount traffic = {};
  std::vector<LayerBytes> bytes_of_layer = {};
};

}  // namespace poseidon::comm
