#include "apps/run_program.h"

#include <signal.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "core/error.h"
#include "core/failure.h"
#include "core/log.h"
#include "core/printable.h"
#include "core/standard_streams.h"

namespace poseidon::apps {

namespace {

void refuse_other_encodings(int count, char** arguments) {
  for (int i = 1; i < count; ++i)
    if (!is_utf8(arguments[i]))
      throw ConfigError(text("argument ", i, " of the command line, \"", arguments[i],
                             "\": expected UTF-8, got other bytes"));
}

/// Raises the soft limit on open files to the hard limit, because the coordinator of a cluster has
/// a connection to each member.
void raise_limit_of_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// Flushes standard output. Throws RunError if output could not be written, for example to a full
/// disk.
void write_out_standard_output() {
  errno = 0;
  std::cout.flush();
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!failed || errno == EPIPE) return;  // a pipe's reader may close it early
  throw RunError(text("standard output: cannot be written: ",
                      errno != 0 ? std::strerror(errno) : "an earlier write failed"));
}

}  // namespace

int report(const char* program, const std::exception_ptr& thrown) {
  StandardErrorLog().info(text(program, ": ", message_of(thrown)));
  return exit_code_of(thrown);
}

int run_program(const char* program, int count, char** arguments,
                const std::function<int()>& body) {
  open_standard_streams();
  ::signal(SIGXFSZ, SIG_IGN);
  raise_limit_of_files();
  try {
    refuse_other_encodings(count, arguments);
    const int code = body();
    write_out_standard_output();
    return code;
  } catch (...) {
    return report(program, std::current_exception());
  }
}

}  // namespace poseidon::apps
