#pragma once

namespace poseidon {

/// Opens each closed descriptor among 0, 1 and 2 on /dev/null. Without this, a file opened later
/// would get such a descriptor and receive the program's output. Must be called before any file is
/// opened.
void open_standard_streams();

}  // namespace poseidon
