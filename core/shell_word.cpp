#include "core/shell_word.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace poseidon {

namespace {

bool stands_for_itself(unsigned char c) {
  return std::isalnum(c) != 0 ||
         std::string_view("-_./:=,@%+").find(static_cast<char>(c)) != std::string_view::npos;
}

}  // namespace

std::string quoted_for_shell(const std::string& word) {
  if (!word.empty() && std::ranges::all_of(word, stands_for_itself)) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace poseidon
