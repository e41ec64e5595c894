#pragma once

#include "core/json_fwd.h"

namespace poseidon::trainer {

/// What can compute on this machine: {"cpu": {"arithmetic", "cores"}, "gpus": [{"name",
/// "memory_bytes", "compute_capability"}], "why_no_gpus"}, the last where there are none.
Json list_devices();

}  // namespace poseidon::trainer
