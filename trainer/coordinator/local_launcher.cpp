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

/// Returns an anonymous file that contains the secret. A child inherits the open file. Other users
/// could read a secret in the arguments.
Descriptor secret_file(const comm::Secret& secret) {
  Descriptor file(::memfd_create("secret", 0));
  if (file.number() < 0)
    throw RunError(text("cannot pass the secret to a new process: ", std::strerror(errno)));
  // Restrict the mode: programs warn if other users can read a secret file.
  if (::fchmod(file.number(), S_IRUSR | S_IWUSR) != 0)
    throw RunError(text("cannot pass the secret to a new process: ", std::strerror(errno)));
  size_t done = 0;
  while (done < secret.size()) {
    const ssize_t count = ::pwrite(file.number(), secret.data() + done, secret.size() - done,
                                   static_cast<off_t>(done));
    if (count <= 0)
      throw RunError(text("cannot pass the secret to a new process: ", std::strerror(errno)));
    done += static_cast<size_t>(count);
  }
  return file;
}

}  // namespace

LocalLauncher::LocalLauncher(LaunchOptions options)
    : ChildLauncher({.listen = "127.0.0.1:0", .secret = random_secret(), .on_this_host = true},
                    options.run / "logs"),
      options_(std::move(options)) {}

void LocalLauncher::start(const std::vector<comm::NodeId>& members,
                          const std::string& coordinator) {
  const int64_t workers = count_of(comm::Role::kWorker, members);
  for (const comm::NodeId member : members) {
    Descriptor secret = secret_file(join_options().secret);
    std::vector<std::string> command = member_command({.node = member,
                                                       .folder = program_folder(),
                                                       .coordinator = coordinator,
                                                       .join_timeout = options_.join_timeout,
                                                       .threads = options_.threads,
                                                       .workers_on_host = workers});
    command.insert(command.end(), {"--secret-file", text("/dev/fd/", secret.number())});
    // --data-root "/": a local worker may read all files that this process may read. This process
    // has checked the files of the job.
    if (member.role == comm::Role::kWorker)
      command.insert(command.end(), {"--data-root", "/", "--run-directory", options_.run.string()});
    children_.start(member,
                    {.arguments = std::move(command), .input = {}, .inherited = std::move(secret)});
  }
}

}  // namespace poseidon::trainer
