#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_fwd.h"

/// Files that a person writes: jobs and networks.
namespace poseidon {

/// Parses as parse_json (core/json.h) does, but comments (`//` to the end of the line, `/* */`) are
/// allowed, and notes are left out: "$schema" of the top object, and each key that begins with `_`
/// or `//`, which may stand several times in an object. Throws ConfigError.
Json parse_config(std::string_view json_text, const std::string& file_name);

/// Reads a file and parses it by parse_config. Throws ConfigError.
Json read_config(const std::filesystem::path& path);

/// The key nearest to `given`, by edit distance (nearest), by its initials ("lr" for
/// "learning_rate"), or by a word that it has in common ("batch_size" for "global_batch"). Words of
/// keys are joined by `_`. Empty when none is near.
std::string nearest_key(std::string_view given, const std::vector<std::string>& keys);

/// "; did you mean \"learning_rate\"?" or nothing.
std::string key_suggestion(std::string_view given, const std::vector<std::string>& keys);

}  // namespace poseidon
