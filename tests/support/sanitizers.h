#pragma once

namespace poseidon::test {

/// Whether a sanitizer looks at every access and call. Then a test whose cases differ in numbers
/// only does fewer of them; the release build does all.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace poseidon::test
