#pragma once

#include <exception>
#include <string>

#include "core/error.h"

namespace poseidon {

/// A message for what was thrown: the text of our own errors as it is, anything else marked as an
/// internal error.
std::string message_of(const std::exception_ptr& thrown);

/// The exit code of a program that ends by it: 2 for what was asked, 3 for a lost peer, else 1.
int exit_code_of(const std::exception_ptr& thrown);

/// Returns what `action` returns. What stands for exit code 2 becomes a RunError: when work has
/// begun, a file that is missing or damaged is a failure of the world.
template <class Action>
decltype(auto) after_beginning(const Action& action) {
  try {
    return action();
  } catch (...) {
    if (exit_code_of(std::current_exception()) != 2) throw;
    throw RunError(message_of(std::current_exception()));
  }
}

}  // namespace poseidon
