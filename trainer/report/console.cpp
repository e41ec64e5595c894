#include "trainer/report/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <utility>

#include "core/error.h"
#include "core/printable.h"
#include "trainer/report/time_text.h"

namespace poseidon::trainer {

namespace {

constexpr std::string_view kClear = "\r\033[K";
constexpr size_t kMaxEarlyLines = 1000;
constexpr uint64_t kMaxLogBytes = uint64_t{16} << 20;

void put(const std::string& bytes) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, bytes.data(), bytes.size());
}

/// Cuts a line to one row of the terminal. A longer line could not be overwritten.
std::string_view cut_to_row(std::string_view line) {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? line.substr(0, size.ws_col - size_t{1}) : line;
}

}  // namespace

std::string session_header(const std::string& command) {
  return text("---- process ", ::getpid(),
              " begins: ", command.empty() ? "poseidon-train" : command);
}

Console::~Console() { finish(); }

void Console::write(std::string_view line) {
  MutexLock lock(mutex_);
  append(text(time_of_day(), " ", printable(line), "\n"));
  if (mode_ == Mode::kSilent) return;
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

void Console::open_log(const std::filesystem::path& file, const std::string& header) {
  MutexLock lock(mutex_);
  try {
    log_.emplace(file);
  } catch (const RunError&) {
    return;  // no log file: the next write to a required file will report the error
  }
  log_path_ = file;
  std::error_code failure;
  log_bytes_ = std::filesystem::file_size(file, failure);
  append(text(time_of_day(), " ", printable(header), "\n"));
  for (const std::string& line : std::exchange(early_, {})) append(line);
}

void Console::record(std::string_view line) {
  MutexLock lock(mutex_);
  append(text(time_of_day(), " ", printable(line), "\n"));
}

void Console::close_log() {
  MutexLock lock(mutex_);
  log_.reset();
}

void Console::append(const std::string& line) {
  if (!log_) {
    if (log_path_.empty() && early_.size() < kMaxEarlyLines) early_.push_back(line);
    return;
  }
  try {
    if (log_bytes_ > kMaxLogBytes) {
      std::error_code failure;
      std::filesystem::rename(log_path_, log_path_.string() + ".1", failure);
      log_.emplace(log_path_);
      log_bytes_ = 0;
    }
    log_->append(line);
    log_bytes_ += line.size();
  } catch (const RunError&) {
    // Logging must not end the run.
  }
}

}  // namespace poseidon::trainer
