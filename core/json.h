#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/json_fwd.h"

namespace poseidon {

/// An error in one JSON value: "FILE: POINTER: MESSAGE".
class JsonPathError : public ConfigError {
 public:
  JsonPathError(JsonPath place, std::string_view message);
  const JsonPath& place() const { return place_; }
  const std::string& message() const { return message_; }

 private:
  JsonPath place_;
  std::string message_;
};

/// Throws JsonPathError.
[[noreturn]] void fail_at(const JsonPath& place, std::string_view message);

/// Parses JSON text. Rejects malformed text and invalid UTF-8, with file, line and column. Also
/// rejects repeated keys in an object, nesting deeper than 64, and text over 16 MiB. Throws
/// ConfigError.
Json parse_json(std::string_view json_text, const std::string& file_name);

/// Reads a file and parses it as parse_json() does, but allows comments. Throws ConfigError.
Json read_json(const std::filesystem::path& path);

/// A value for a message: compact JSON, at most 60 characters.
std::string shown(const Json& value);

/// The candidate with the smallest edit distance to `given`. Returns "" if this distance exceeds
/// the larger of 2 and a third of the length of `given`.
std::string nearest(std::string_view given, const std::vector<std::string>& candidates);

/// The end of an error message: "; did you mean \"kernel\"?" with nearest(), or "" if no candidate
/// is similar.
std::string suggestion(std::string_view given, const std::vector<std::string>& candidates);

}  // namespace poseidon
