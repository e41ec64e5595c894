#pragma once

namespace poseidon {

/// Opens each closed descriptor among 0, 1 and 2 on /dev/null. Otherwise a file that is opened
/// later would have such a descriptor, and would receive the program's output. Must be called
/// before any file is opened.
void open_standard_streams();

}  // namespace poseidon
