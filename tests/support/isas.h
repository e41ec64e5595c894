#pragma once

#include <doctest/doctest.h>

#include <string>

#include "core/isa.h"

namespace poseidon {

/// Calls `body` once for each instruction set of this build that the processor supports.
template <class Body>
void for_each_isa(const Body& body) {
  const Isa best = isa();
  for (const Isa each : built_isas()) {
    if (each > best) break;
    choose_isa(name_of(each));
    const std::string name(name_of(each));
    CAPTURE(name);
    body();
  }
  choose_isa(name_of(best));
}

}  // namespace poseidon
