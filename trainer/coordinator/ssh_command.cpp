#include "trainer/coordinator/ssh_command.h"

#include "core/error.h"
#include "core/shell_word.h"

namespace poseidon::trainer {

namespace {

/// Each member has a separate connection, which ends when the member ends. These options override
/// those of the user's ssh configuration that would interfere, such as forwarded ports.
constexpr const char* kOptions[] = {
    "BatchMode=yes",    "ConnectTimeout=10",     "ServerAliveInterval=5",   "ServerAliveCountMax=3",
    "ControlMaster=no", "ControlPath=none",      "ClearAllForwardings=yes", "ForwardAgent=no",
    "ForwardX11=no",    "PermitLocalCommand=no", "RemoteCommand=none"};

}  // namespace

std::vector<std::string> ssh_command(const Host& host, const std::vector<std::string>& command) {
  std::vector<std::string> arguments{"ssh", "-T"};
  for (const char* option : kOptions) arguments.insert(arguments.end(), {"-o", option});
  if (!host.user.empty()) arguments.insert(arguments.end(), {"-l", host.user});
  if (host.port != 0) arguments.insert(arguments.end(), {"-p", std::to_string(host.port)});
  // "exec" replaces the shell by the program, so the connection ends when the program ends.
  std::string line = "exec";
  for (const std::string& word : command) line += " " + quoted_for_shell(word);
  arguments.insert(arguments.end(), {"--", host.name, line});
  return arguments;
}

}  // namespace poseidon::trainer
