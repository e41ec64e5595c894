#pragma once

namespace poseidon {

/// Opens those of the descriptors 0, 1 and 2 that are closed on /dev/null, so that no file which is
/// opened later gets such a number and with it what is printed. Comes before anything else.
void open_standard_streams();

}  // namespace poseidon
