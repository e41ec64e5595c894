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

/// `raw` without the byte order mark that some editors write before UTF-8.
std::string_view without_byte_order_mark(std::string_view raw);

/// Whether two texts of UTF-8 differ, as far as can be told without Unicode's tables, only in their
/// normalization: where they differ, one has a letter with combining characters, and the other one
/// letter beyond ASCII.
bool differ_in_normalization(std::string_view a, std::string_view b);

}  // namespace poseidon
