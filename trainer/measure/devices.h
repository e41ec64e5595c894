#pragma once

#include "core/json_fwd.h"

namespace poseidon::trainer {

/// The compute devices of this machine: {"cpu": {"arithmetic", "cores"}, "gpus": [{"name",
/// "memory_bytes", "compute_capability"}], "why_no_gpus"}. "why_no_gpus" is present only without
/// GPUs.
Json list_devices();

}  // namespace poseidon::trainer
