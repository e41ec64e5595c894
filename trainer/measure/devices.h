#pragma once

#include "core/json_fwd.h"

namespace poseidon::trainer {

/// The compute devices of this machine: {"cpu": {"arithmetic", "cores"}, "gpus": [{"name",
/// "memory_bytes", "compute_capability"}]}. With GPUs it also has "cuda": {"driver", "runtime"};
/// without GPUs "why_no_gpus".
Json list_devices();

}  // namespace poseidon::trainer
