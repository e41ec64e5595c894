#pragma once

#include <string>
#include <vector>

#include "trainer/coordinator/hosts_file.h"

namespace poseidon::trainer {

/// The arguments of the ssh program that run a command on a host by the user's login shell there:
/// without a terminal, without questions, and ended when the host is silent for a quarter of a
/// minute.
std::vector<std::string> ssh_command(const Host& host, const std::vector<std::string>& command);

}  // namespace poseidon::trainer
