#include "trainer/coordinator/local_launcher.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "trainer/coordinator/member_command.h"

namespace poseidon::trainer {

namespace {

/// An anonymous file with the secret, inherited by children: neither their arguments nor their
/// environment show it.
Descriptor secret_file(const comm::Secret& secret) {
  Descriptor file(::memfd_create("secret", 0));
  if (file.number() < 0)
    throw RunError(text("a secret cannot be handed over: ", std::strerror(errno)));
  // An anonymous file is everybody's to read unless it is said otherwise, and readers warn of that.
  if (::fchmod(file.number(), S_IRUSR | S_IWUSR) != 0)
    throw RunError(text("a secret cannot be handed over: ", std::strerror(errno)));
  size_t done = 0;
  while (done < secret.size()) {
    const ssize_t count = ::pwrite(file.number(), secret.data() + done, secret.size() - done,
                                   static_cast<off_t>(done));
    if (count <= 0) throw RunError(text("a secret cannot be handed over: ", std::strerror(errno)));
    done += static_cast<size_t>(count);
  }
  return file;
}

}  // namespace

LocalLauncher::LocalLauncher(LaunchOptions options)
    : Launcher({.listen = "127.0.0.1:0", .secret = random_secret(), .on_this_host = true}),
      options_(std::move(options)),
      children_(options_.run / "logs") {}

void LocalLauncher::start(const std::vector<comm::NodeId>& members,
                          const std::string& coordinator) {
  for (const comm::NodeId member : members) {
    Descriptor secret = secret_file(gathering().secret);
    std::vector<std::string> command = arguments(member, coordinator, secret.number());
    children_.start(member,
                    {.arguments = std::move(command), .input = {}, .inherited = std::move(secret)});
  }
}

std::vector<std::string> LocalLauncher::arguments(comm::NodeId node, const std::string& coordinator,
                                                  int secret) const {
  std::vector<std::string> command =
      member_command(program_folder(), node, coordinator, options_.join_timeout);
  command.insert(command.end(), {"--secret-file", text("/dev/fd/", secret)});
  // The job names files as this process, which has checked them, may read them.
  if (node.role == comm::Role::kWorker)
    command.insert(command.end(), {"--threads", std::to_string(options_.threads), "--data-root",
                                   "/", "--run-directory", options_.run.string()});
  return command;
}

}  // namespace poseidon::trainer
