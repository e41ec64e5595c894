#pragma once

#include "core/error.h"

namespace poseidon {

/// Returns the result of `open`, which opens a file that the user named. Converts a RunError from
/// `open`, for example for a damaged file, to a ConfigError: the user must name or supply a valid
/// file.
template <class Open>
auto as_config_error(const Open& open) {
  try {
    return open();
  } catch (const RunError& error) {
    throw ConfigError(error.what());
  }
}

}  // namespace poseidon
