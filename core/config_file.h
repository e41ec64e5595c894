#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_fwd.h"

/// Functions to read config files, which users write: jobs and networks.
namespace poseidon {

/// Parses as parse_json (core/json.h) does, with two extensions. Comments (`//` to the end of the
/// line, `/* */`) are allowed. Notes are removed: "$schema" in the top object, and each key that
/// begins with `_` or `//`. Such a key may occur several times in an object; "$schema" may not.
/// Throws ConfigError.
Json parse_config(std::string_view json_text, const std::string& file_name);

/// Reads a file and parses it with parse_config. Throws ConfigError.
Json read_config(const std::filesystem::path& path);

/// Returns the key that `given` most likely means, or "" if none is similar. Tries in this order:
/// * a key whose words have the initials `given` ("lr" for "learning_rate"),
/// * the key at the smallest edit distance, if nearest() (core/json.h) accepts this distance,
/// * the key with the largest fraction of common words ("batch_size" for "global_batch"). The words
///   of a key are joined by `_`. Words of fewer than four letters do not count.
std::string nearest_key(std::string_view given, const std::vector<std::string>& keys);

/// The end of an error message: "; did you mean \"learning_rate\"?" with nearest_key(), or "" if no
/// key is similar.
std::string key_suggestion(std::string_view given, const std::vector<std::string>& keys);

}  // namespace poseidon
