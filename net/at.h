#pragma once

#include <cstddef>

namespace poseidon::net {

/// Converts an index, such as that of a node or call (net/program.h), to size_t. The index must not
/// be negative.
inline size_t at(int number) { return static_cast<size_t>(number); }

}  // namespace poseidon::net
