#pragma once

#include "core/cuda/settings.h"
#include "layers/backend.h"
#include "tests/support/gpu/fake_driver.h"

namespace poseidon::test {

/// What comes again is compared with what was recorded of it.
inline constexpr cuda::Settings kPlayedSettings{.graphs = cuda::Graphs::kCompared};

/// A GPU that the host plays, with all that computes on it: the engine's own kernels and, in place
/// of libraries, loops (HostProducts).
layers::Backend make_played_backend(const cuda::FakeDriver::Options& options,
                                    const cuda::Settings& settings = kPlayedSettings);

}  // namespace poseidon::test
