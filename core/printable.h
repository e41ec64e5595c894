#pragma once

#include <string>
#include <string_view>

namespace poseidon {

bool is_utf8(std::string_view raw);

/// `raw` as one line for a terminal or a log. Control characters, line separators, characters
/// that change the writing direction, and invalid UTF-8 bytes become escapes such as "\x1b".
/// Therefore an untrusted name cannot control a terminal or start a new line.
std::string printable(std::string_view raw);

/// `raw` without a leading UTF-8 byte order mark, which some editors write.
std::string_view without_byte_order_mark(std::string_view raw);

/// Whether two UTF-8 texts differ only in their Unicode normalization. The test is approximate,
/// because it has no Unicode tables. Where the texts differ, one must have a letter with combining
/// characters and the other a single letter beyond ASCII.
bool differ_in_normalization(std::string_view a, std::string_view b);

}  // namespace poseidon
