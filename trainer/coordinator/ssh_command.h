#pragma once

#include <string>
#include <vector>

#include "trainer/coordinator/hosts_file.h"

namespace poseidon::trainer {

/// Returns the ssh command that runs `command` in the user's login shell on a host. ssh uses no
/// terminal and asks no questions. It ends if it cannot connect within 10 s, or if the host does
/// not answer for 15 s.
std::vector<std::string> ssh_command(const Host& host, const std::vector<std::string>& command);

}  // namespace poseidon::trainer
