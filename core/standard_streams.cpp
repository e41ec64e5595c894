#include "core/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace poseidon {

void open_standard_streams() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    // All lower descriptors are open at this point, so open() returns `number`.
    if (::fcntl(number, F_GETFD) < 0 && errno == EBADF) ::open("/dev/null", O_RDWR);
}

}  // namespace poseidon
