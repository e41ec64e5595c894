#pragma once

#include "layers/backend.h"

namespace poseidon::testing {

/// The CPU as a device whose memory nobody can reach but its own work: layers, updates and copies.
/// Any other access ends the process by SIGSEGV, so what net and trainer do with device memory
/// behind a device's back is found without one.
layers::Backend make_walled_backend(int threads = 1);

}  // namespace poseidon::testing
