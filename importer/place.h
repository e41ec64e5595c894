#pragma once

#include <string>

/// Reads files of other programs, and writes equivalent networks, jobs and weights.
namespace poseidon::importer {

/// A position in a text file, counted from 1; columns in bytes.
struct Position {
  int line = 1, column = 1;
};

/// A file and a position in it, for messages.
struct Place {
  std::string file;
  Position position;

  /// Returns "net.prototxt:3:5".
  std::string text() const;
};

/// Throws ConfigError "net.prototxt:3:5: MESSAGE".
[[noreturn]] void fail_at(const Place& place, const std::string& message);

}  // namespace poseidon::importer
