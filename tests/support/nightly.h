#pragma once

#include <doctest/doctest.h>

namespace poseidon::test {

/// The mark of a case in *_slow_test.cpp that takes too long for every change, and of whose kind
/// shorter ones stay: its label of CTest is nightly (tests/list_cases.cmake).
inline doctest::test_suite nightly() { return {"nightly"}; }

}  // namespace poseidon::test
