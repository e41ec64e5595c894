#include "trainer/coordinator/local_launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "core/digest.h"
#include "core/error.h"
#include "core/file.h"
#include "core/isa.h"
#include "core/secret.h"

namespace poseidon::trainer {

namespace fs = std::filesystem;

namespace {

constexpr auto kPoll = std::chrono::milliseconds(10);
constexpr auto kGrace = std::chrono::milliseconds(200);
constexpr auto kAfterKilling = std::chrono::seconds(2);
constexpr size_t kSecretBytes = 32;

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return text("was ended by signal ", WTERMSIG(status));
  return text("ended with exit code ", WEXITSTATUS(status));
}

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

/// This process's environment, and passive waiting: a team that waits must not take the cores of
/// another process.
std::vector<std::string> environment() {
  std::vector<std::string> variables{"OMP_WAIT_POLICY=passive", "GOMP_SPINCOUNT=0"};
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (!std::string_view(*variable).starts_with("OMP_WAIT_POLICY="))
      variables.emplace_back(*variable);
  return variables;
}

/// A list as exec wants it. `arguments` must outlive it.
std::vector<char*> pointers(const std::vector<std::string>& arguments) {
  std::vector<char*> out;
  for (const std::string& argument : arguments) out.push_back(const_cast<char*>(argument.c_str()));
  out.push_back(nullptr);
  return out;
}

/// In the child, between fork and exec: only what is safe there.
[[noreturn]] void become(char* const* arguments, char* const* environment, int log, int secret) {
  // To a whole group they are for the coordinator, which ends the job in good order.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_IGN);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  // Above all the coordinator's listening socket, which would outlive it here.
  ::close_range(STDERR_FILENO + 1, static_cast<unsigned>(secret) - 1, 0);
  ::close_range(static_cast<unsigned>(secret) + 1, ~0U, 0);
  ::execve(arguments[0], arguments, environment);
  const char* why = std::strerror(errno);
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, why, std::strlen(why));
  ::_exit(127);
}

/// As text: who reads a secret from a file leaves out white space at its end.
comm::Secret random_secret() {
  std::array<std::byte, kSecretBytes> random;
  fill_with_random_bytes(random);
  const std::string digits = hexadecimal(random);
  const auto bytes = std::as_bytes(std::span(digits));
  return {bytes.begin(), bytes.end()};
}

/// The folder of the running program.
fs::path program_folder() { return fs::read_symlink("/proc/self/exe").parent_path(); }

}  // namespace

LocalLauncher::LocalLauncher(LaunchOptions options)
    : Launcher({.listen = "127.0.0.1:0", .secret = random_secret(), .on_this_host = true}),
      options_(std::move(options)),
      logs_(options_.run / "logs") {}

void LocalLauncher::start(const std::vector<comm::NodeId>& members,
                          const std::string& coordinator) {
  std::error_code failure;
  fs::create_directories(logs_, failure);
  if (failure) throw RunError(logs_.string() + ": cannot be made: " + failure.message());
  for (const comm::NodeId member : members) start(member, coordinator);
}

std::vector<std::string> LocalLauncher::arguments(comm::NodeId node, const std::string& coordinator,
                                                  int secret) const {
  const bool worker = node.role == comm::Role::kWorker;
  std::vector<std::string> command{
      (program_folder() / (worker ? "poseidon-worker" : "poseidon-server")).string(),
      "--coordinator",
      coordinator,
      "--secret-file",
      text("/dev/fd/", secret),
      "--rank",
      std::to_string(node.rank),
      "--once",
      "--join-timeout",
      std::to_string(options_.join_timeout.count())};
  if (!isa_is_best()) {
    command.emplace_back("--isa");
    command.emplace_back(name_of(isa()));
  }
  if (worker) {
    // The job names files as this process, which has checked them, may read them.
    for (const std::string& argument :
         {std::string("--threads"), std::to_string(options_.threads), std::string("--data-root"),
          std::string("/"), std::string("--run-directory"), options_.run.string()})
      command.push_back(argument);
  }
  return command;
}

void LocalLauncher::start(comm::NodeId node, const std::string& coordinator) {
  const char* kind = node.role == comm::Role::kWorker ? "worker" : "server";
  Child child{.node = node, .log = logs_ / text(kind, "-", node.rank, ".log")};
  const Descriptor secret = secret_file(gathering().secret);
  const Descriptor log(::open(child.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (log.number() < 0)
    throw RunError(text(child.log.string(), ": cannot be written: ", std::strerror(errno)));
  const std::vector<std::string> command = arguments(node, coordinator, secret.number());
  if (::access(command[0].c_str(), X_OK) != 0)
    throw RunError(text(command[0], ": cannot be run: ", std::strerror(errno)));
  const std::vector<std::string> variables = environment();
  const std::vector<char*> argument_pointers = pointers(command),
                           variable_pointers = pointers(variables);
  child.process = ::fork();
  if (child.process < 0)
    throw RunError(text(name_of(node), " cannot be started: ", std::strerror(errno)));
  if (child.process == 0)
    become(argument_pointers.data(), variable_pointers.data(), log.number(), secret.number());
  running_.push_back(std::move(child));
}

std::vector<Launcher::Ended> LocalLauncher::ended() {
  std::vector<Ended> told;
  std::erase_if(running_, [&](const Child& child) {
    int status = 0;
    if (::waitpid(child.process, &status, WNOHANG) != child.process) return false;
    told.push_back({.node = child.node,
                    .how = text("it ", how_it_ended(status), " (see ", child.log.string(), ")")});
    if (!child.killed) ends_[child.node] = told.back().how;
    return true;
  });
  return told;
}

std::string LocalLauncher::end_of(comm::NodeId node) const {
  const auto found = ends_.find(node);
  return found == ends_.end() ? "" : found->second;
}

void LocalLauncher::kill(comm::NodeId node) {
  // Who has lost its connections because it ends may not be gone yet.
  const auto deadline = std::chrono::steady_clock::now() + kGrace;
  const auto is_it = [&](const Child& child) { return child.node == node; };
  while (ended(), std::ranges::any_of(running_, is_it)) {
    if (std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(kPoll);
  }
  for (Child& child : running_)
    if (is_it(child)) {
      child.killed = true;
      ::kill(child.process, SIGKILL);
    }
}

void LocalLauncher::wait(std::chrono::milliseconds grace) {
  const auto deadline = std::chrono::steady_clock::now() + grace;
  while (!running_.empty() && std::chrono::steady_clock::now() < deadline) {
    ended();
    std::this_thread::sleep_for(kPoll);
  }
  for (Child& child : running_) {
    child.killed = true;
    ::kill(child.process, SIGKILL);
  }
  // A process that waits for a disk or a file server in the kernel does not end before it has its
  // answer: it is left behind, and takes no further part.
  const auto given_up = std::chrono::steady_clock::now() + kAfterKilling;
  while (!running_.empty() && std::chrono::steady_clock::now() < given_up) {
    ended();
    std::this_thread::sleep_for(kPoll);
  }
  running_.clear();
}

LocalLauncher::~LocalLauncher() { wait(std::chrono::seconds(2)); }

}  // namespace poseidon::trainer
