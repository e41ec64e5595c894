#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

namespace poseidon {

/// Child processes that keep CPUs busy. The destructor ends them.
class OtherProcesses {
 public:
  explicit OtherProcesses(int count) {
    for (int i = 0; i < count; ++i) {
      processes_.push_back(fork());
      if (processes_.back() == 0)
        for (volatile unsigned n = 0;;) n = n + 1;
    }
  }
  ~OtherProcesses() {
    for (const pid_t process : processes_) kill(process, SIGKILL);
    for (const pid_t process : processes_) waitpid(process, nullptr, 0);
  }
  OtherProcesses(const OtherProcesses&) = delete;
  OtherProcesses& operator=(const OtherProcesses&) = delete;

 private:
  std::vector<pid_t> processes_;
};

}  // namespace poseidon
