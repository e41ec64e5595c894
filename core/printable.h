#pragma once

#include <string>
#include <string_view>

namespace poseidon {

/// Whether `raw` is UTF-8 throughout.
bool is_utf8(std::string_view raw);

/// `raw` for a terminal or a log, as one line: control characters, characters that turn the
/// direction of writing, and bytes that are no UTF-8 stand as "\x1b" and the like, so that the name
/// of a file or a stranger can neither steer a terminal nor begin a line of its own.
std::string printable(std::string_view raw);

}  // namespace poseidon
