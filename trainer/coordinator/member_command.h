#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "comm/wire/handshake.h"
#include "comm/wire/node.h"

namespace poseidon::trainer {

/// Parameters of the command that starts a member on any host.
struct MemberStart {
  comm::NodeId node;
  std::filesystem::path folder;  ///< folder of the member's program
  std::string coordinator;       ///< "host:port"
  std::chrono::seconds join_timeout;
  int64_t threads = 0;  ///< compute threads of a worker; 0: cores of its host / workers_on_host
  int64_t workers_on_host = 1;  ///< number of workers on the member's host
};

/// The program of a member, and its arguments.
std::vector<std::string> member_command(const MemberStart& start);

/// Number of members with this role.
int64_t count_of(comm::Role role, const std::vector<comm::NodeId>& members);

/// The folder of the running program.
std::filesystem::path program_folder();

/// Returns a random secret for one run, as hexadecimal digits. Raw bytes could end with white
/// space, which programs that read a secret strip.
comm::Secret random_secret();

}  // namespace poseidon::trainer
