#pragma once

#include <filesystem>
#include <vector>

#include "trainer/coordinator/hosts_file.h"

namespace poseidon::trainer {

/// Members that are started on other hosts.
struct SshOptions {
  std::vector<Host> hosts = {};
  std::filesystem::path programs = {};   ///< folder of the programs on the hosts; "": same as here
  std::filesystem::path data_root = {};  ///< data root on the hosts; "": from their environment
};

}  // namespace poseidon::trainer
