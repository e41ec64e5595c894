#pragma once

#include <exception>
#include <functional>

namespace poseidon::apps {

/// Prints the exception as one line on standard error. Returns its exit code.
int report(const char* program, const std::exception_ptr& thrown);

/// Runs `body` as the body of main() and returns the exit code. Also does the following:
/// - opens the standard streams that are closed
/// - ignores SIGXFSZ, so that a file beyond its size limit causes an error instead of a signal
/// - raises the limit on open files
/// - rejects arguments that are not UTF-8, since JSON files cannot contain them
/// - checks at the end that all output was written
int run_program(const char* program, int count, char** arguments, const std::function<int()>& body);

}  // namespace poseidon::apps
