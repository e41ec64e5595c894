#pragma once

#include <string>

/// Reads what other programs wrote, and writes networks, jobs and weights that mean the same.
namespace poseidon::importer {

/// Counted from 1; columns in bytes.
struct Position {
  int line = 1, column = 1;
};

/// Where something stands in a text file, for messages.
struct Place {
  std::string file;
  Position position;

  /// "net.prototxt:3:5"
  std::string text() const;
};

/// Throws ConfigError "net.prototxt:3:5: MESSAGE".
[[noreturn]] void fail_at(const Place& place, const std::string& message);

}  // namespace poseidon::importer
