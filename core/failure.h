#pragma once

#include <exception>
#include <string>

namespace poseidon {

/// A message for what was thrown: the text of our own errors as it is, anything else marked as an
/// internal error.
std::string message_of(const std::exception_ptr& thrown);

/// The exit code of a program that ends by it: 2 for what was asked, 3 for a lost peer, else 1.
int exit_code_of(const std::exception_ptr& thrown);

}  // namespace poseidon
