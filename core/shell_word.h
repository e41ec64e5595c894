#pragma once

#include <string>

namespace poseidon {

/// A text that a POSIX shell takes for one word, which is `word`.
std::string quoted_for_shell(const std::string& word);

}  // namespace poseidon
