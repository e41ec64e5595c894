#pragma once

#include "layers/backend.h"

namespace poseidon::testing {

/// The CPU as a device with guarded memory: only layers, updates and copies of this device can
/// access it. Any other access ends the process with SIGSEGV. So a test without a GPU finds code of
/// net and trainer that accesses device memory directly.
layers::Backend make_guarded_backend(int threads = 1);

}  // namespace poseidon::testing
