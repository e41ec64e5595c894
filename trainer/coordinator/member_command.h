#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "comm/wire/handshake.h"
#include "comm/wire/node.h"

namespace poseidon::trainer {

/// A member as whoever starts it sees it, wherever it runs.
struct MemberStart {
  comm::NodeId node;
  std::filesystem::path folder;  ///< where its program is
  std::string coordinator;       ///< "host:port"
  std::chrono::seconds join_timeout;
  int64_t threads = 0;          ///< of a worker; 0: the host's cores, shared by
  int64_t workers_on_host = 1;  ///< so many workers
};

/// The program of a member, and its arguments.
std::vector<std::string> member_command(const MemberStart& start);

/// How many of the members are workers, or servers.
int64_t count_of(comm::Role role, const std::vector<comm::NodeId>& members);

/// The folder of the running program.
std::filesystem::path program_folder();

/// A secret for one run, as text: who reads a secret leaves out white space at its end.
comm::Secret random_secret();

}  // namespace poseidon::trainer
