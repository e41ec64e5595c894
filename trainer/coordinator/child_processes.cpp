#include "trainer/coordinator/child_processes.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>

#include "core/error.h"
#include "core/printable.h"
#include "trainer/coordinator/member_command.h"

namespace poseidon::trainer {

namespace fs = std::filesystem;

namespace {

constexpr auto kPoll = std::chrono::milliseconds(10);
constexpr auto kGrace = std::chrono::milliseconds(200);
constexpr auto kGraceAtEnd = std::chrono::seconds(2);
constexpr auto kAfterKilling = std::chrono::seconds(2);
constexpr uint64_t kMostOfLastLine = 500;
constexpr int kCannotRun = 127;  // exit code, as in a shell, if a program cannot be run

/// Returns the last line of a file after its first `begin` bytes; "" if there is none. Limits the
/// line to its last kMostOfLastLine bytes. Ignores read errors, because the line is only a detail
/// of a message.
std::string last_line(const fs::path& file, uint64_t begin) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  const auto end = static_cast<uint64_t>(std::max<std::streamoff>(0, in.tellg()));
  if (end <= begin) return "";
  std::string tail(std::min(end - begin, kMostOfLastLine), '\0');
  in.seekg(static_cast<std::streamoff>(end - tail.size()));
  if (!in.read(tail.data(), static_cast<std::streamsize>(tail.size()))) return "";
  const size_t last = tail.find_last_not_of(" \r\n");
  if (last == std::string::npos) return "";
  tail.resize(last + 1);
  return printable(tail.substr(tail.rfind('\n') + 1));
}

/// Argument list for exec. `arguments` must outlive the list.
std::vector<char*> pointers(const std::vector<std::string>& arguments) {
  std::vector<char*> out;
  for (const std::string& argument : arguments) out.push_back(const_cast<char*>(argument.c_str()));
  out.push_back(nullptr);
  return out;
}

/// A pipe. Exec closes both ends in a child.
struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      throw RunError(text("a process cannot be started: ", std::strerror(errno)));
    out = Descriptor(ends[0]);
    in = Descriptor(ends[1]);
  }
  Descriptor out, in;
};

/// File descriptors of this process that a new process inherits.
struct Kept {
  int log;
  int input;      ///< -1: none
  int inherited;  ///< keeps its number in the new process; -1: none
  int failure;    ///< write end of a pipe: receives errno if exec fails
};

/// Closes all files of a new process except the standard ones and two others (-1: none). Otherwise
/// the child would keep the coordinator's listening socket open.
void close_all_but(int one, int other) {
  const int less = std::min(one, other), more = std::max(one, other);
  int from = STDERR_FILENO + 1;
  for (const int kept : {less, more})
    if (kept >= from) {
      if (kept > from)
        ::close_range(static_cast<unsigned>(from), static_cast<unsigned>(kept) - 1, 0);
      from = kept + 1;
    }
  ::close_range(static_cast<unsigned>(from), ~0U, 0);
}

/// Ignores stop signals in the child. A signal to the whole process group, such as Ctrl-C, is meant
/// for the coordinator, which then ends the job cleanly. The coordinator blocks all signals that it
/// receives as stop requests.
void ignore_stop_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU})
    ::signal(signal, SIG_IGN);
  sigset_t none, blocked;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, nullptr, &blocked);
  for (int signal = 1; signal < SIGRTMIN; ++signal)
    if (::sigismember(&blocked, signal) == 1) ::signal(signal, SIG_IGN);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// Replaces the child by the program `arguments[0]`. Runs in the child after fork, so it may only
/// call async-signal-safe functions.
[[noreturn]] void become(char* const* arguments, char* const* variables, const Kept& kept) {
  ignore_stop_signals();
  ::dup2(kept.log, STDOUT_FILENO);
  ::dup2(kept.log, STDERR_FILENO);
  ::dup2(kept.input >= 0 ? kept.input : ::open("/dev/null", O_RDONLY), STDIN_FILENO);
  close_all_but(kept.inherited, kept.failure);
  ::execvpe(arguments[0], arguments, variables);
  const int why = errno;
  [[maybe_unused]] const ssize_t written = ::write(kept.failure, &why, sizeof why);
  ::_exit(kCannotRun);
}

/// Returns the errno with which exec has failed in the child; 0 if the program runs.
int failure_to_run(Pipe& failure) {
  failure.in = {};
  int why = 0;
  while (::read(failure.out.number(), &why, sizeof why) < 0 && errno == EINTR) continue;
  return why;
}

}  // namespace

ChildProcesses::~ChildProcesses() { wait(kGraceAtEnd); }

Descriptor ChildProcesses::open_log(Child& child) const {
  std::error_code failure;
  fs::create_directories(logs_, failure);
  if (failure) throw RunError(logs_.string() + ": cannot be created: " + failure.message());
  const char* kind = child.node.role == comm::Role::kWorker ? "worker" : "server";
  child.log = logs_ / text(kind, "-", child.node.rank, ".log");
  Descriptor log(::open(child.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (log.number() < 0)
    throw RunError(text(child.log.string(), ": cannot be written: ", std::strerror(errno)));
  child.said_before = file_bytes(log, child.log);
  return log;
}

/// Describes the end of a process from its waitpid() status. If the exit code is not 0, includes
/// the last line of its log.
std::string ChildProcesses::how_it_ended(const Child& child, int status) {
  if (WIFSIGNALED(status))
    return text("it was ended by signal ", WTERMSIG(status), " (see ", child.log.string(), ")");
  const std::string words = status == 0 ? "" : last_line(child.log, child.said_before);
  return text("it ended with exit code ", WEXITSTATUS(status), " (see ", child.log.string(), ")",
              words.empty() ? "" : ": ", words);
}

void ChildProcesses::start(comm::NodeId node, const ChildCommand& command) {
  Child child{.node = node, .log = {}};
  const Descriptor log = open_log(child);
  const std::vector<char*> argument_pointers = pointers(command.arguments);
  Pipe failure;
  child.process = ::fork();
  if (child.process < 0)
    throw RunError(text(name_of(node), " cannot be started: ", std::strerror(errno)));
  if (child.process == 0)
    become(argument_pointers.data(), environ,
           {.log = log.number(),
            .input = command.input.number(),
            .inherited = command.inherited.number(),
            .failure = failure.in.number()});
  if (const int why = failure_to_run(failure); why != 0) {
    ::waitpid(child.process, nullptr, 0);
    throw RunError(text(command.arguments[0], ": cannot be run: ", std::strerror(why)));
  }
  running_.push_back(std::move(child));
}

std::vector<Launcher::Ended> ChildProcesses::ended() {
  std::vector<Launcher::Ended> told;
  std::erase_if(running_, [&](const Child& child) {
    int status = 0;
    if (::waitpid(child.process, &status, WNOHANG) != child.process) return false;
    told.push_back({.node = child.node, .how = how_it_ended(child, status)});
    if (!child.killed) ends_[child.node] = told.back().how;
    return true;
  });
  return told;
}

std::string ChildProcesses::end_of(comm::NodeId node) const {
  const auto found = ends_.find(node);
  return found == ends_.end() ? "" : found->second;
}

void ChildProcesses::kill(comm::NodeId node) {
  // The member may be about to end by itself. Wait for this, so that end_of() can report how.
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

void ChildProcesses::wait(std::chrono::milliseconds grace) {
  const auto deadline = std::chrono::steady_clock::now() + grace;
  while (!running_.empty() && std::chrono::steady_clock::now() < deadline) {
    ended();
    std::this_thread::sleep_for(kPoll);
  }
  for (Child& child : running_) {
    child.killed = true;
    ::kill(child.process, SIGKILL);
  }
  // A process that waits in the kernel for a disk or a file server does not end before that wait
  // ends, even after SIGKILL. So wait for the children only for a limited time.
  const auto given_up = std::chrono::steady_clock::now() + kAfterKilling;
  while (!running_.empty() && std::chrono::steady_clock::now() < given_up) {
    ended();
    std::this_thread::sleep_for(kPoll);
  }
  running_.clear();
}

}  // namespace poseidon::trainer
