#include "trainer/report/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "core/printable.h"

namespace poseidon::trainer {

namespace {

constexpr std::string_view kClear = "\r\033[K";

void put(const std::string& bytes) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, bytes.data(), bytes.size());
}

/// What fits into one row of the terminal: a longer line could not be written over.
std::string_view cut_to_row(std::string_view line) {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? line.substr(0, size.ws_col - size_t{1}) : line;
}

}  // namespace

Console::~Console() { finish(); }

void Console::write(std::string_view line) {
  if (mode_ == Mode::kSilent) return;
  MutexLock lock(mutex_);
  std::string out;
  if (!shown_.empty()) out += kClear;
  out += printable(line);
  out += '\n';
  put(out + shown_);
}

void Console::show(std::string_view line) {
  if (!live()) return;
  MutexLock lock(mutex_);
  shown_ = cut_to_row(printable(line));
  put(std::string(kClear) + shown_);
}

void Console::finish() {
  MutexLock lock(mutex_);
  if (!shown_.empty()) put("\n");
  shown_.clear();
}

}  // namespace poseidon::trainer
