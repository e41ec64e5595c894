#pragma once

#include <algorithm>
#include <cstdint>

namespace poseidon {

/// A run of things that are counted: `first`, `first` + 1, ... `first` + `count` - 1.
struct IndexRange {
  int64_t first = 0, count = 0;
  int64_t end() const { return first + count; }
  bool operator==(const IndexRange&) const = default;
};

/// Part `index` of `count` things cut into `parts` that follow each other: as equal as can be,
/// larger ones first.
constexpr IndexRange even_part(int64_t count, int64_t parts, int64_t index) {
  const int64_t each = count / parts, more = count % parts;
  return {.first = index * each + std::min(index, more), .count = each + (index < more ? 1 : 0)};
}

}  // namespace poseidon
