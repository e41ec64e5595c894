#include "core/log.h"

#include <unistd.h>

#include <string>

#include "core/printable.h"

namespace poseidon {

namespace {

void write_line(std::string_view message) {
  const std::string line = printable(message) + '\n';
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void StandardErrorLog::info(std::string_view message) { write_line(message); }
void StandardErrorLog::warning(std::string_view message) {
  write_line("warning: " + std::string(message));
}

}  // namespace poseidon
