#pragma once

#include <string_view>

namespace poseidon {

/// Takes what a component reports to a person. Implementations may be called from any thread.
class Log {
 public:
  virtual ~Log() = default;
  virtual void info(std::string_view message) = 0;
  virtual void warning(std::string_view message) = 0;
};

/// One line per message on standard error, warnings marked. Each line is written whole.
class StandardErrorLog final : public Log {
 public:
  void info(std::string_view message) override;
  void warning(std::string_view message) override;
};

/// Says nothing.
class SilentLog final : public Log {
 public:
  void info(std::string_view) override {}
  void warning(std::string_view) override {}
};

}  // namespace poseidon
