#pragma once

#include "core/error.h"

namespace poseidon {

/// Returns the result of `open`. Converts its RunErrors to ConfigErrors: the user named the file,
/// so the user must correct it, even if it is only damaged.
template <class Open>
auto as_config_error(const Open& open) {
  try {
    return open();
  } catch (const RunError& error) {
    throw ConfigError(error.what());
  }
}

}  // namespace poseidon
