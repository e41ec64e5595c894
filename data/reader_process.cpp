#include "data/reader_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "core/printable.h"

namespace poseidon::data {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxSaid = 4096;

struct Pipe {
  Descriptor reading, writing;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw RunError(text("cannot create a pipe: ", std::strerror(errno)));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

/// Standard input, output and error of a program that is started.
class SpawnFiles {
 public:
  SpawnFiles(const Descriptor& out, const Descriptor& err) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, out.number(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, err.number(), STDERR_FILENO);
  }
  ~SpawnFiles() { posix_spawn_file_actions_destroy(&actions_); }
  SpawnFiles(const SpawnFiles&) = delete;
  SpawnFiles& operator=(const SpawnFiles&) = delete;
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

pid_t spawn(const fs::path& program, const fs::path& input, std::span<const std::string> more,
            const SpawnFiles& files) {
  std::vector<std::string> words{program.string(), input.string()};
  words.insert(words.end(), more.begin(), more.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t process = -1;
  const int fault =
      ::posix_spawn(&process, program.c_str(), files.get(), nullptr, arguments.data(), environ);
  if (fault == ENOENT)
    throw ConfigError(text(input.string(), ": requires ", program.filename().string(),
                           ", which this build lacks (docs/data.md)"));
  if (fault != 0)
    throw RunError(text(program.string(), ": cannot be started: ", std::strerror(fault)));
  return process;
}

std::string last_line(const std::string& lines) {
  const size_t end = lines.find_last_not_of('\n');
  if (end == std::string::npos) return "";
  const size_t begin = lines.rfind('\n', end);
  return lines.substr(begin == std::string::npos ? 0 : begin + 1, end - begin);
}

std::string signal_text(int signal) {
  if (signal == SIGXCPU) return "exceeded its CPU time limit and was stopped";
  return text("crashed by signal ", signal, " (", ::strsignal(signal), ")");
}

}  // namespace

ReaderProcess::ReaderProcess(fs::path program, const fs::path& input,
                             std::span<const std::string> more,
                             std::chrono::milliseconds stall_limit)
    : program_(std::move(program)), stall_limit_(stall_limit) {
  Pipe bytes = make_pipe(), errors = make_pipe();
  process_ = spawn(program_, input, more, SpawnFiles(bytes.writing, errors.writing));
  bytes_ = std::move(bytes.reading);
  errors_ = std::move(errors.reading);
}

ReaderProcess::~ReaderProcess() { end(); }

void ReaderProcess::end() {
  if (process_ < 0) return;
  ::kill(process_, SIGKILL);
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) continue;
  process_ = -1;
}

void ReaderProcess::read(std::span<std::byte> out) {
  while (!out.empty()) {
    wait_for_bytes();
    const ssize_t count = ::read(bytes_.number(), out.data(), out.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw RunError(how_it_ended());
    out = out.subspan(static_cast<size_t>(count));
  }
}

/// Waits until the output pipe has bytes or has ended. Also reads standard error, so that its pipe
/// does not fill up and block the program. Kills a stalled program and throws RunError.
void ReaderProcess::wait_for_bytes() {
  for (;;) {
    std::array<pollfd, 2> ends{pollfd{bytes_.number(), POLLIN, 0},
                               pollfd{errors_.number(), POLLIN, 0}};
    const int ready = ::poll(ends.data(), ends.size(), static_cast<int>(stall_limit_.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) {
      end();
      throw RunError(text(program_.filename().string(), " sent nothing for ",
                          static_cast<double>(stall_limit_.count()) / 1000, " s and was stopped"));
    }
    if ((ends[1].revents & POLLIN) != 0) read_errors();
    if (ends[0].revents != 0) return;
    if ((ends[1].revents & POLLHUP) != 0) errors_ = Descriptor();  // poll() ignores -1
  }
}

void ReaderProcess::read_errors() {
  std::array<char, 1024> piece{};
  const ssize_t count = ::read(errors_.number(), piece.data(), piece.size());
  if (count > 0) error_output_.append(piece.data(), static_cast<size_t>(count));
  if (error_output_.size() > kMaxSaid) error_output_.erase(0, error_output_.size() - kMaxSaid);
}

/// Returns one line that states how the program ended. Called after the output pipe has ended, so
/// the program has exited or is about to exit. Kills a program that closes its output and does not
/// exit.
std::string ReaderProcess::how_it_ended() {
  const std::string name = program_.filename().string();
  pollfd rest{errors_.number(), POLLIN, 0};
  while (rest.fd >= 0 && ::poll(&rest, 1, 1000) > 0 && (rest.revents & POLLIN) != 0) read_errors();
  int status = 0;
  pid_t ended = 0;
  for (int64_t tries = 0; tries < stall_limit_.count() && ended == 0; ++tries) {
    ended = ::waitpid(process_, &status, WNOHANG);
    if (ended == 0) ::poll(nullptr, 0, 1);
  }
  if (ended != process_) {
    end();
    return name + " closed its output but did not exit";
  }
  process_ = -1;
  const std::string said = printable(last_line(error_output_));
  if (WIFEXITED(status) && WEXITSTATUS(status) == kReaderRefused && !said.empty()) return said;
  const std::string how = WIFSIGNALED(status)
                              ? signal_text(WTERMSIG(status))
                              : text("exited too early, with exit code ", WEXITSTATUS(status));
  return text("damaged? ", name, " ", how, said.empty() ? "" : ": " + said);
}

}  // namespace poseidon::data
