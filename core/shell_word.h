#pragma once

#include <string>

namespace poseidon {

/// `word`, quoted if necessary, so that a POSIX shell reads it as one word.
std::string quoted_for_shell(const std::string& word);

}  // namespace poseidon
