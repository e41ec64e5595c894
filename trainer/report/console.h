#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/log.h"
#include "core/mutex.h"

namespace poseidon::trainer {

/// Standard error as a person sees it: lines, and on a terminal one live line below them that is
/// written over. Thread-safe.
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

 private:
  void write(std::string_view line);

  const Mode mode_;
  Mutex mutex_;
  std::string shown_ GUARDED_BY(mutex_);
};

}  // namespace poseidon::trainer
