#pragma once

#include "core/error.h"

namespace poseidon {

/// Returns what `open` returns, and turns its RunErrors into ConfigErrors: what is wrong with a
/// file that the user named, even if only damage, is the user's to mend.
template <class Open>
auto opened_for_user(const Open& open) {
  try {
    return open();
  } catch (const RunError& error) {
    throw ConfigError(error.what());
  }
}

}  // namespace poseidon
