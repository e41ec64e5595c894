#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/json_fwd.h"

namespace poseidon {

/// What is wrong with one value, "FILE: POINTER: MESSAGE".
class PlacedError : public ConfigError {
 public:
  PlacedError(JsonPlace place, std::string_view message);
  const JsonPlace& place() const { return place_; }
  const std::string& message() const { return message_; }

 private:
  JsonPlace place_;
  std::string message_;
};

/// Throws PlacedError.
[[noreturn]] void fail_at(const JsonPlace& place, std::string_view message);

/// Parses JSON text. Refuses, with file, line and column: malformed text, a key given twice in an
/// object, nesting deeper than 64, text over 16 MiB, invalid UTF-8. Throws ConfigError.
Json parse_json(std::string_view json_text, const std::string& file_name);

/// Reads and parses a file. Throws ConfigError.
Json read_json(const std::filesystem::path& path);

/// A value as it is shown in messages: compact JSON, cut at 60 characters.
std::string shown(const Json& value);

/// The candidate nearest to `given` by edit distance; empty when none is near.
std::string nearest(std::string_view given, const std::vector<std::string>& candidates);

/// "; did you mean \"kernel\"?" or nothing.
std::string suggestion(std::string_view given, const std::vector<std::string>& candidates);

}  // namespace poseidon
