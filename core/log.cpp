#include "core/log.h"

#include <unistd.h>

#include <string>

namespace poseidon {

namespace {

void write_line(std::string line) {
  line += '\n';
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void StandardErrorLog::info(std::string_view message) { write_line(std::string(message)); }
void StandardErrorLog::warning(std::string_view message) {
  write_line("warning: " + std::string(message));
}

}  // namespace poseidon
