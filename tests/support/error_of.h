#pragma once

#include <string>

namespace poseidon {

/// The text of the error that `action` throws; "" when it throws none.
template <class Error, class Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace poseidon
