#include "trainer/coordinator/ssh_command.h"

#include <doctest/doctest.h>

#include "core/shell_word.h"
#include "trainer/coordinator/member_command.h"

#include <algorithm>

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

/// The arguments without the options that are common to all hosts.
std::vector<std::string> own_arguments(const std::vector<std::string>& arguments) {
  std::vector<std::string> own;
  for (size_t i = 2; i < arguments.size(); ++i)
    if (arguments[i] == "-o")
      ++i;
    else
      own.push_back(arguments[i]);
  return own;
}

bool has_option(const std::vector<std::string>& arguments, const std::string& option) {
  for (size_t i = 1; i < arguments.size(); ++i)
    if (arguments[i] == option && arguments[i - 1] == "-o") return true;
  return false;
}

}  // namespace

TEST_CASE("ssh starts without terminal and prompts, and ends when the host does not answer") {
  const std::vector<std::string> arguments = ssh_command({.name = "node1"}, {"/bin/worker"});
  CHECK(arguments[0] == "ssh");
  CHECK(arguments[1] == "-T");
  for (const char* option : {"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5",
                             "ServerAliveCountMax=3", "ControlPath=none"}) {
    CAPTURE(option);
    CHECK(has_option(arguments, option));
  }
}

TEST_CASE("user, port and host precede the command, which is one argument") {
  const std::string line = "exec ";
  CHECK(own_arguments(ssh_command({.name = "node1"}, {"/bin/worker", "--once"})) ==
        std::vector<std::string>{"--", "node1", line + "/bin/worker --once"});
  CHECK(
      own_arguments(ssh_command({.user = "ann", .name = "fd00::7", .port = 2222}, {"w", "a b"})) ==
      std::vector<std::string>{"-l", "ann", "-p", "2222", "--", "fd00::7", line + "w 'a b'"});
}

TEST_CASE("a word quoted for the shell reaches the program unchanged") {
  CHECK(quoted_for_shell("/data/mnist-1.0_x:a=b,c@d%e+f") == "/data/mnist-1.0_x:a=b,c@d%e+f");
  CHECK(quoted_for_shell("") == "''");
  CHECK(quoted_for_shell("my data") == "'my data'");
  CHECK(quoted_for_shell("it's") == "'it'\\''s'");
  CHECK(quoted_for_shell("$HOME;`x`\n") == "'$HOME;`x`\n'");
  CHECK(quoted_for_shell("[::]:0") == "'[::]:0'");
}
