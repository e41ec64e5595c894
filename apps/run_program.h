#pragma once

#include <exception>
#include <functional>

namespace poseidon::apps {

/// Prints the exception as one line on standard error. Returns the exit code for it.
int report(const char* program, const std::exception_ptr& thrown);

/// Runs `body` as the body of main(), and returns the exit code: the result of `body`, or that of
/// report() for an exception. Also does the following:
/// - opens the standard streams that are closed
/// - ignores SIGXFSZ, so that a file beyond its size limit causes an error instead of a signal
/// - raises the limit on open files
/// - rejects arguments that are not UTF-8, since JSON files cannot contain them
/// - after `body`, reports an error if standard output could not be written
int run_program(const char* program, int count, char** arguments, const std::function<int()>& body);

}  // namespace poseidon::apps
