#include "trainer/console.h"

#include <unistd.h>

namespace poseidon::trainer {

namespace {

constexpr std::string_view kClear = "\r\033[K";

void put(const std::string& bytes) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, bytes.data(), bytes.size());
}

}  // namespace

Console::~Console() { finish(); }

void Console::write(std::string_view line) {
  if (mode_ == Mode::kSilent) return;
  MutexLock lock(mutex_);
  std::string out;
  if (!shown_.empty()) out += kClear;
  out += line;
  out += '\n';
  put(out + shown_);
}

void Console::show(std::string_view line) {
  if (!live()) return;
  MutexLock lock(mutex_);
  shown_ = line;
  put(std::string(kClear) + shown_);
}

void Console::finish() {
  MutexLock lock(mutex_);
  if (!shown_.empty()) put("\n");
  shown_.clear();
}

}  // namespace poseidon::trainer
