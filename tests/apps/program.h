#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/folders.h"
#include "tests/trainer/tiny_job.h"

/// Runs the real programs, like a shell.
namespace poseidon::apps {

struct Finished {
  int code = -1;  ///< exit code; 128 + signal if a signal ended the program
  std::string out, err;
};

/// A running program: one of Poseidon's, or any other by its absolute path. Its output goes to
/// files in `folder`.
class Program {
 public:
  /// `own_group`: starts the program in a separate process group, like an interactive shell.
  Program(const std::string& name, const std::vector<std::string>& words,
          const std::filesystem::path& folder, const std::filesystem::path& standard_output = "",
          bool own_group = false)
      : out_(standard_output.empty() ? folder / "stdout" : standard_output),
        err_(folder / "stderr") {
    std::vector<std::string> all{(std::filesystem::path(test::program_folder()) / name).string()};
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> arguments;
    for (std::string& word : all) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const std::string out_name = out_.string(), err_name = err_.string();
    process_ = fork();
    if (process_ != 0) return;
    if (own_group) setpgid(0, 0);
    const int out = open(out_name.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int err = open(err_name.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execv(arguments[0], arguments.data());
    _exit(127);
  }

  /// Has no effect after wait(): another process may have that process id by then.
  void send(int signal) const {
    if (process_ > 0) kill(process_, signal);
  }
  pid_t process() const { return process_; }

  /// The program's stderr so far.
  std::string err() const { return trainer::read_text(err_); }

  Finished wait() {
    int status = 0;
    if (process_ > 0) waitpid(process_, &status, 0);
    process_ = -1;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    const bool regular = std::filesystem::is_regular_file(out_);
    return {code, regular ? trainer::read_text(out_) : "", trainer::read_text(err_)};
  }

 private:
  std::filesystem::path out_, err_;
  pid_t process_ = -1;
};

/// Polls until `condition` holds. Returns false after two minutes: a busy machine may need one.
inline bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 12000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace poseidon::apps
