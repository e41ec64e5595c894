#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace poseidon {

/// A JSON value that keeps the order of object keys. core/json.h has its definition. A header that
/// needs only references includes this file: each source file then compiles a second faster.
using Json = nlohmann::ordered_json;

/// The position of a JSON value, for messages: a file and a JSON pointer ("/layers/3/kernel").
struct JsonPath {
  std::string file;
  std::string pointer;

  JsonPath at(std::string_view key) const { return {file, pointer + "/" + std::string(key)}; }
  JsonPath at(size_t index) const { return {file, pointer + "/" + std::to_string(index)}; }
};

}  // namespace poseidon
