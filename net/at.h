#pragma once

#include <cstddef>

namespace poseidon::net {

/// The number of a call, value or node, as an index.
inline size_t at(int number) { return static_cast<size_t>(number); }

}  // namespace poseidon::net
