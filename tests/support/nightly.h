#pragma once

#include <doctest/doctest.h>

namespace poseidon::test {

/// Marks a case of *_slow_test.cpp that is too long for .ci/run. Shorter cases of the same kind
/// remain there. The CTest label of a marked case is nightly (tests/list_cases.cmake).
inline doctest::test_suite nightly() { return {"nightly"}; }

}  // namespace poseidon::test
