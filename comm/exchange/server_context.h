#pragma once

#include <cstdint>
#include <vector>

#include "comm/plan/counters.h"
#include "comm/plan/plan.h"
#include "comm/plan/shard_parts.h"
#include "comm/wire/outlet.h"
#include "comm/wire/slab_pool.h"

namespace poseidon::comm {

struct ServerOptions {
  uint32_t view = 0;
  bool carries_payload = true;  ///< false in a planning run, whose frames have only lengths
  uint64_t first_step = 0;
  uint64_t seed = 0;  ///< of the job, for stochastic rounding
};

/// The state that all chunks of one server share: slabs, outlet and traffic counters.
struct ServerContext {
  const Plan& plan;
  const uint32_t rank;
  const ServerOptions options;
  Outlet& outlet;
  const PartTree tree;  ///< over the parts of all workers
  SlabPool pool = SlabPool();
  TrafficCount traffic = {};
  std::vector<LayerBytes> bytes_of_layer = {};
};

}  // namespace poseidon::comm
