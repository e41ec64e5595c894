#pragma once

#include <cstddef>

namespace poseidon::net {

/// Converts the number of a call, value or node (net/program.h) to a container index.
inline size_t at(int number) { return static_cast<size_t>(number); }

}  // namespace poseidon::net
