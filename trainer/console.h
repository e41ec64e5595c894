#pragma once

#include <string>
#include <string_view>

#include "core/log.h"
#include "core/mutex.h"

namespace poseidon::trainer {

/// Standard error as a person sees it: lines, and on a terminal one live line below them that is
/// written over. Thread-safe.
class Console final : public Log {
 public:
  /// `live`: standard error is a terminal.
  explicit Console(bool live) : live_(live) {}
  ~Console() override;

  void info(std::string_view message) override { write(message); }
  void warning(std::string_view message) override { write("warning: " + std::string(message)); }

  bool live() const { return live_; }
  /// Replaces the live line; nothing on what is no terminal.
  void show(std::string_view line);
  /// Ends the live line, so that what follows stands below it.
  void finish();

 private:
  void write(std::string_view line);

  const bool live_;
  Mutex mutex_;
  std::string shown_ GUARDED_BY(mutex_);
};

}  // namespace poseidon::trainer
