#include "trainer/coordinator/ssh_launcher.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "comm/wire/address.h"
#include "core/error.h"
#include "trainer/coordinator/member_command.h"
#include "trainer/coordinator/ssh_command.h"

namespace poseidon::trainer {

namespace {

/// A pipe that contains the secret as a line. `out` is the read end. `in` is the write end, which
/// SshLauncher keeps open.
struct SecretInput {
  Descriptor out, in;
};

SecretInput secret_input(const comm::Secret& secret) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw RunError(text("cannot pass the secret to a new process: ", std::strerror(errno)));
  SecretInput input{.out = Descriptor(ends[0]), .in = Descriptor(ends[1])};
  comm::Secret line = secret;
  line.push_back(std::byte{'\n'});
  // This does not block: the buffer of an empty pipe is larger than the line.
  if (::write(input.in.number(), line.data(), line.size()) != std::ssize(line))
    throw RunError(text("cannot pass the secret to a new process: ", std::strerror(errno)));
  return input;
}

/// The address with which a member listens on all interfaces of its host: IPv6 if `host.address` is
/// IPv6, else IPv4.
const char* anywhere(const Host& host) {
  return host.address.find(':') == std::string::npos ? "0.0.0.0:0" : "[::]:0";
}

}  // namespace

SshLauncher::SshLauncher(SshOptions ssh, const std::string& listen, LaunchOptions options)
    : ChildLauncher({.listen = listen, .secret = random_secret()}, options.run / "logs"),
      ssh_(std::move(ssh)),
      options_(std::move(options)) {}

void SshLauncher::start(const std::vector<comm::NodeId>& members, const std::string& coordinator) {
  const HostAssignment assignment(ssh_.hosts, count_of(comm::Role::kWorker, members),
                                  count_of(comm::Role::kServer, members));
  for (const comm::NodeId member : members) {
    SecretInput input = secret_input(join_options().secret);
    children_.start(member, {.arguments = ssh_command(assignment.host_of(member),
                                                      command_of(member, coordinator, assignment)),
                             .input = std::move(input.out)});
    inputs_.push_back(std::move(input.in));
  }
}

std::vector<std::string> SshLauncher::command_of(comm::NodeId node, const std::string& coordinator,
                                                 const HostAssignment& assignment) const {
  const Host& host = assignment.host_of(node);
  std::vector<std::string> command =
      member_command({.node = node,
                      .folder = ssh_.programs.empty() ? program_folder() : ssh_.programs,
                      .coordinator = coordinator,
                      .join_timeout = options_.join_timeout,
                      .threads = options_.threads,
                      .workers_on_host = assignment.workers_on_host(node)});
  command.insert(command.end(), {"--listen", anywhere(host), "--advertise",
                                 comm::to_string({.host = host.address, .port = 0}),
                                 "--secret-file", "-", "--end-with-stdin"});
  if (node.role == comm::Role::kWorker && !ssh_.data_root.empty())
    command.insert(command.end(), {"--data-root", ssh_.data_root.string()});
  return command;
}

}  // namespace poseidon::trainer
