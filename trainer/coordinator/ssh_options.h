#pragma once

#include <filesystem>
#include <vector>

#include "trainer/coordinator/hosts_file.h"

namespace poseidon::trainer {

/// Options for members that are started on other hosts.
struct SshOptions {
  std::vector<Host> hosts = {};
  std::filesystem::path programs = {};   ///< programs on the hosts; "": same folder as here
  std::filesystem::path data_root = {};  ///< data root on the hosts; "": their $POSEIDON_DATA
};

}  // namespace poseidon::trainer
