#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace poseidon {

/// A request of the user that cannot be fulfilled, because of a flag, a config, a network or a
/// missing path. The text states the file, the position in it, the expected and the actual value.
/// Programs exit with 2.
class ConfigError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A failure at run time: a file, a dataset, a disk, a loss that is not finite. Programs exit with
/// 1.
class RunError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Memory that the run needs cannot be allocated. Programs exit with 1.
class OutOfMemory : public RunError {
 public:
  using RunError::RunError;
};

/// Another process of the job failed, and the job cannot continue. Programs exit with 3.
class PeerFailed : public RunError {
 public:
  using RunError::RunError;
};

/// A bug: an invariant of this code does not hold.
class LogicError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Streams all arguments into one string: text("expected ", 3, ", got ", 4).
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// Throws LogicError with `message` unless `condition` holds. For invariants, never for user input.
inline void check(bool condition, const char* message) {
  if (!condition) throw LogicError(message);
}

}  // namespace poseidon
