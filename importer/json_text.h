#pragma once

#include <string>

#include "core/json_fwd.h"

namespace poseidon::importer {

/// Formats JSON for human readers. The outermost object or list has one member per line. Each inner
/// value is on one line if it fits into about 100 columns.
std::string json_text(const Json& json);

}  // namespace poseidon::importer
