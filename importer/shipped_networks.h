#pragma once

#include <string_view>

#include "core/json_fwd.h"

namespace poseidon::importer {

/// Returns a network of configs/networks that is compiled into the program. `name` is the file name
/// without its extension. Throws LogicError for an unknown name.
Json shipped_network(std::string_view name);

}  // namespace poseidon::importer
