#pragma once

#include "core/error.h"

namespace poseidon {

/// What `open` gives. What is wrong with a file that the user named, if only that it is damaged, is
/// the user's to mend: its RunErrors become ConfigErrors.
template <class Open>
auto opened_for_user(const Open& open) {
  try {
    return open();
  } catch (const RunError& error) {
    throw ConfigError(error.what());
  }
}

}  // namespace poseidon
