#pragma once

#include <array>
#include <string_view>

namespace poseidon::layers::cuda {

/// Returns the name of a kernel that several layer types use: `type` and then `what`, as a
/// null-terminated array.
constexpr std::array<char, 48> kernel_name(std::string_view type, std::string_view what) {
  std::array<char, 48> name{};
  size_t end = 0;
  for (const std::string_view part : {type, what})
    for (const char letter : part) name[end++] = letter;
  return name;
}

}  // namespace poseidon::layers::cuda
