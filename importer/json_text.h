#pragma once

#include <string>

#include "core/json_fwd.h"

namespace poseidon::importer {

/// JSON as people write it: what fits into a line of 100 columns stands in one.
std::string json_text(const Json& json);

}  // namespace poseidon::importer
