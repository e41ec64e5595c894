#pragma once

#include <cstdint>

namespace poseidon::test {

/// Whether a sanitizer looks at every access and call. Then a test whose cases differ in numbers
/// only does fewer of them; the release build does all.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

/// How many times as far apart the moments are at which such a test strikes.
inline constexpr uint64_t kStride = kIsSanitized ? 8 : 1;

/// A short limit of silence. A sanitized member may be silent for more than a second on a busy
/// machine.
inline constexpr const char* kShortTimeout =
    kIsSanitized ? "cluster.timeout_s=4" : "cluster.timeout_s=1";

}  // namespace poseidon::test
