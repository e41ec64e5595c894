#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/failure.h"
#include "core/file.h"
#include "core/log.h"
#include "core/mutex.h"

namespace poseidon::trainer {

/// Standard error as a person sees it: lines, and on a terminal one live line below them that is
/// written over. The lines of a run are also appended to a file. Thread-safe.
class Console final : public Log {
 public:
  enum class Mode : uint8_t {
    kSilent,
    kLines,  ///< standard error is a file, a pipe
    kLive,   ///< standard error is a terminal
  };
  explicit Console(Mode mode) : mode_(mode) {}
  ~Console() override;

  void info(std::string_view message) override { write(message); }
  void warning(std::string_view message) override { write("warning: " + std::string(message)); }

  bool live() const { return mode_ == Mode::kLive; }
  /// Replaces the live line; nothing on what is no terminal.
  void show(std::string_view line);
  /// Ends the live line, so that what follows stands below it.
  void finish();

  /// From now on all lines are appended to `file` too, each after the time of day. First comes
  /// `header`, then the lines that were written before this call. A line that cannot be written
  /// there is left out. A file that has become large is renamed to "<file>.1".
  void open_log(const std::filesystem::path& file, const std::string& header);
  /// Appends a line to the file alone.
  void record(std::string_view line);
  void close_log();

 private:
  void write(std::string_view line);
  void append(const std::string& line) REQUIRES(mutex_);

  const Mode mode_;
  Mutex mutex_;
  std::string shown_ GUARDED_BY(mutex_);
  std::vector<std::string> early_ GUARDED_BY(mutex_);  ///< lines before open_log()
  std::filesystem::path log_path_ GUARDED_BY(mutex_);
  std::optional<AppendFile> log_ GUARDED_BY(mutex_);
  uint64_t log_bytes_ GUARDED_BY(mutex_) = 0;
};

/// The file of a run's lines in its folder.
inline constexpr const char* kConsoleFile = "console.log";

/// The first line of a session there.
std::string session_header(const std::string& command);

/// Returns what `run` returns. Closes the console's log after it, whose last line is the error
/// where there is one: whoever prints it knows nothing of the log.
template <class Run>
auto recorded(Console& console, const Run& run) {
  struct Closing {
    ~Closing() { console.close_log(); }
    Console& console;
  } closing{console};
  try {
    return run();
  } catch (...) {
    console.record("error: " + message_of(std::current_exception()));
    throw;
  }
}

}  // namespace poseidon::trainer
