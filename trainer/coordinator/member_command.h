#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "comm/wire/handshake.h"
#include "comm/wire/node.h"

namespace poseidon::trainer {

/// The program of a member, in a folder, with the arguments that it has wherever it runs.
std::vector<std::string> member_command(const std::filesystem::path& folder, comm::NodeId node,
                                        const std::string& coordinator,
                                        std::chrono::seconds join_timeout);

/// The folder of the running program.
std::filesystem::path program_folder();

/// A secret for one run, as text: who reads a secret leaves out white space at its end.
comm::Secret random_secret();

}  // namespace poseidon::trainer
