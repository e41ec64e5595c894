#pragma once

#include <string_view>

#include "core/json_fwd.h"

namespace poseidon::importer {

/// A network of configs/networks, which the program carries in itself, by the file's name without
/// its ending. LogicError for one that there is not.
Json shipped_network(std::string_view name);

}  // namespace poseidon::importer
