// Arbitrary bytes as a hosts file: the reader throws ConfigError, or returns a host for each worker
// and server. No host name may be an option for ssh or a command for a shell.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "core/error.h"
#include "core/shell_word.h"
#include "trainer/coordinator/ssh_command.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace poseidon;
  using namespace poseidon::trainer;
  try {
    const std::vector<Host> hosts =
        parse_hosts({reinterpret_cast<const char*>(data), size}, "hosts");
    for (const Host& host : hosts) {
      for (const std::string& name : {host.name, host.address})
        if (name.empty() || name[0] == '-' || quoted_for_shell(name).find('\n') != name.npos)
          std::abort();
      if (host.user.starts_with('-') || host.slots < 1 || host.slots > 4096) std::abort();
      if (ssh_command(host, {"w"}).size() < 5) std::abort();
    }
    const int64_t workers = std::min<int64_t>(slots_of(hosts), 64);
    const HostAssignment assignment(hosts, workers, 2);
    for (uint16_t rank = 0; rank < workers; ++rank)
      if (assignment.workers_on_host({comm::Role::kWorker, rank}) < 1) std::abort();
    if (assignment.host_of({comm::Role::kServer, 1}).name.empty()) std::abort();
  } catch (const ConfigError&) {
  }
  return 0;
}
