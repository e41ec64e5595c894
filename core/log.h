#pragma once

#include <string_view>

namespace poseidon {

/// Receives the messages of components for the user. Implementations may be called from any thread.
class Log {
 public:
  virtual ~Log() = default;
  virtual void info(std::string_view message) = 0;
  virtual void warning(std::string_view message) = 0;
};

/// Writes one line per message to standard error and marks warnings. Each line is one write, so
/// lines of several threads do not mix.
class StandardErrorLog final : public Log {
 public:
  void info(std::string_view message) override;
  void warning(std::string_view message) override;
};

/// Discards all messages.
class SilentLog final : public Log {
 public:
  void info(std::string_view) override {}
  void warning(std::string_view) override {}
};

}  // namespace poseidon
