#pragma once

#include <algorithm>
#include <cstdint>

namespace poseidon {

/// The indices `first` to `first` + `count` - 1.
struct IndexRange {
  int64_t first = 0, count = 0;
  int64_t end() const { return first + count; }
  bool operator==(const IndexRange&) const = default;
};

/// Divides `count` items into `parts` contiguous parts of nearly equal size, larger parts first.
/// Returns the indices of part `index`.
constexpr IndexRange even_range(int64_t count, int64_t parts, int64_t index) {
  const int64_t each = count / parts, more = count % parts;
  return {.first = index * each + std::min(index, more), .count = each + (index < more ? 1 : 0)};
}

}  // namespace poseidon
