#pragma once

#include "core/cuda/settings.h"
#include "layers/backend.h"
#include "tests/support/gpu/fake_driver.h"

namespace poseidon::test {

/// A GPU that the host plays, with all that computes on it: the engine's own kernels and, in place
/// of libraries, loops (HostProducts).
layers::Backend make_played_backend(const cuda::FakeDriver::Options& options,
                                    const cuda::Settings& settings = {});

}  // namespace poseidon::test
