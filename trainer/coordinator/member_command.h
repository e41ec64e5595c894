#pragma once

#include <array>
#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
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

/// Environment variables of a member. The threads of its OpenMP teams sleep while they wait.
/// Threads that wait actively would occupy cores that other processes need.
inline constexpr std::array<std::string_view, 2> kPassiveWaiting{"OMP_WAIT_POLICY=passive",
                                                                 "GOMP_SPINCOUNT=0"};

/// The environment of a member on this host. It has the variables `inherited`, whose list ends with
/// a null pointer, except that kPassiveWaiting replaces the variables of the same names.
std::vector<std::string> member_environment(const char* const* inherited);

/// Number of members with this role.
int64_t count_of(comm::Role role, const std::vector<comm::NodeId>& members);

/// The folder of the running program.
std::filesystem::path program_folder();

/// Returns a random secret for one run, as hexadecimal digits. Raw bytes could end with white
/// space, which programs that read a secret strip.
comm::Secret random_secret();

}  // namespace poseidon::trainer
