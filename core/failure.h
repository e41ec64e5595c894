#pragma once

#include <exception>
#include <string>

#include "core/error.h"

namespace poseidon {

/// The message for an exception. ConfigError and RunError keep their text. Errors of the file
/// system, refused resources and missing memory get a text for users. All other exceptions, such as
/// LogicError, are marked as internal errors.
std::string message_of(const std::exception_ptr& thrown);

/// The exit code of a program that ends with this exception: 2 for ConfigError and file system
/// errors, 3 for PeerFailed, else 1.
int exit_code_of(const std::exception_ptr& thrown);

/// Returns the result of `action`. Converts an exception with exit code 2 to RunError: after the
/// start of the run, a missing or damaged file is a failure at run time, not a wrong request.
template <class Action>
decltype(auto) as_run_error(const Action& action) {
  try {
    return action();
  } catch (...) {
    if (exit_code_of(std::current_exception()) != 2) throw;
    throw RunError(message_of(std::current_exception()));
  }
}

}  // namespace poseidon
