#pragma once

#include <cstdint>

namespace poseidon::test {

/// Whether the build has the address or the thread sanitizer. If so, a test with many similar cases
/// runs only some of them. The release build runs all.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

/// Factor for the interval between the injection points of such a test.
inline constexpr uint64_t kStride = kIsSanitized ? 8 : 1;

/// A short timeout of node failures. A sanitized process may send nothing for more than a second on
/// a busy machine.
inline constexpr const char* kShortTimeout =
    kIsSanitized ? "cluster.timeout_s=4" : "cluster.timeout_s=1";

}  // namespace poseidon::test
