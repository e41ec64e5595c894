#pragma once

#include <string>

#include "core/json_fwd.h"

namespace poseidon::importer {

/// Formats JSON for human readers. Within the outermost object, a value that fits into 100 columns
/// is on one line.
std::string json_text(const Json& json);

}  // namespace poseidon::importer
