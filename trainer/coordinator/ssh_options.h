#pragma once

#include <filesystem>
#include <vector>

#include "trainer/coordinator/hosts_file.h"

namespace poseidon::trainer {

/// Options for members that are started on other hosts.
struct SshOptions {
  std::vector<Host> hosts = {};
  std::filesystem::path programs =
      {};  ///< folder of the programs on the hosts; "": as on this host
  std::filesystem::path data_root =
      {};  ///< data root on the hosts; "": $POSEIDON_DATA of each host
};

}  // namespace poseidon::trainer
