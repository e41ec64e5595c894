#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace poseidon {

/// A JSON value whose objects keep the order of their keys. Its definition is in core/json.h: a
/// header that takes it by reference only spares all who include it a second of compilation.
using Json = nlohmann::ordered_json;

/// Where a JSON value stands, for messages: a file and a JSON pointer ("/layers/3/kernel").
struct JsonPlace {
  std::string file;
  std::string pointer;

  JsonPlace at(std::string_view key) const { return {file, pointer + "/" + std::string(key)}; }
  JsonPlace at(size_t index) const { return {file, pointer + "/" + std::to_string(index)}; }
};

}  // namespace poseidon
