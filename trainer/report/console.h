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

/// Writes lines to standard error. On a terminal, it also shows one live line below them, which
/// show() overwrites. During a run, the lines are also appended to a log file. Thread-safe.
class Console final : public Log {
 public:
  enum class Mode : uint8_t {
    kSilent,  ///< writes only to the log file
    kLines,   ///< standard error is a file or a pipe
    kLive,    ///< standard error is a terminal
  };
  explicit Console(Mode mode) : mode_(mode) {}
  ~Console() override;

  void info(std::string_view message) override { write(message); }
  void warning(std::string_view message) override { write("warning: " + std::string(message)); }

  bool live() const { return mode_ == Mode::kLive; }
  /// Replaces the live line. Does nothing if standard error is not a terminal.
  void show(std::string_view line);
  /// Keeps the live line as it is; later output is below it.
  void finish();

  /// From now on, also appends all lines to `file`, each with its date and time (UTC). First writes
  /// `header`, then the first 1000 lines from before this call. Lines that cannot be written are
  /// dropped. If the file is larger than 16 MiB, it is renamed to "<file>.1" and a new file begins.
  void open_log(const std::filesystem::path& file, const std::string& header);
  /// Appends a line to the log file only.
  void record(std::string_view line);
  void close_log();

 private:
  void write(std::string_view line);
  void append(const std::string& line) REQUIRES(mutex_);

  const Mode mode_;
  Mutex mutex_;
  std::string shown_ GUARDED_BY(mutex_);
  std::vector<std::string> early_ GUARDED_BY(mutex_);  ///< first lines before open_log()
  std::filesystem::path log_path_ GUARDED_BY(mutex_);
  std::optional<AppendFile> log_ GUARDED_BY(mutex_);
  uint64_t log_bytes_ GUARDED_BY(mutex_) = 0;
};

/// Name of the log file in a run directory.
inline constexpr const char* kConsoleFile = "console.log";

/// The first line of a session in the log file.
std::string session_header(const std::string& command);

/// Calls `run`, closes the console's log, and returns the result of `run`. After an exception, also
/// appends the error to the log, because the caller prints the error only after the log is closed.
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
