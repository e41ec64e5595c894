#pragma once

#include <exception>
#include <string>

namespace poseidon {

/// What was thrown, in words for a person: errors of ours as they are, anything else marked as an
/// internal error.
std::string message_of(const std::exception_ptr& thrown);

/// The code with which a program ends that threw it: 2 what was asked, 3 a lost peer, else 1.
int exit_code_of(const std::exception_ptr& thrown);

}  // namespace poseidon
