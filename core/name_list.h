#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"

namespace poseidon {

/// At most five names, and the number of the remaining names: "a, b, c, d, e and 117 more".
inline std::string name_list(const std::vector<std::string>& names) {
  constexpr size_t kMax = 5;
  std::string out;
  for (size_t i = 0; i < std::min(kMax, names.size()); ++i) out += (i > 0 ? ", " : "") + names[i];
  return names.size() > kMax ? out + text(" and ", names.size() - kMax, " more") : out;
}

}  // namespace poseidon
