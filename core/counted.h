#pragma once

#include <string>
#include <string_view>

#include "core/error.h"

namespace poseidon {

/// A count with its noun: "1 worker", "2 workers".
template <class Number>
std::string counted(Number count, std::string_view what) {
  return text(count, " ", what, count == 1 ? "" : "s");
}

}  // namespace poseidon
