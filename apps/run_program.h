#pragma once

#include <exception>
#include <functional>

namespace poseidon::apps {

/// One line on standard error for what was thrown. Returns the exit code that it stands for.
int report(const char* program, const std::exception_ptr& thrown);

/// The whole of a main(): opens standard streams that are closed, has a file that grows beyond its
/// limit end in an error in place of a signal (SIGXFSZ), refuses arguments that are no UTF-8, which
/// no JSON file can hold, calls `body`, and sees to it that what it printed was written. Returns
/// the exit code.
int run_program(const char* program, int count, char** arguments, const std::function<int()>& body);

}  // namespace poseidon::apps
