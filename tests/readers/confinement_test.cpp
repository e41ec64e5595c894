#include "readers/sandbox.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <thread>

#include "tests/data/made_files.h"
#include "tests/support/sanitizers.h"

using namespace poseidon;
using data::made::Folder;

namespace {

/// Runs `act` in a sandboxed child process. Returns its exit code.
int confined(const Folder& folder, const std::function<int()>& act) {
  const pid_t process = fork();
  if (process == 0) {
    readers::enter_sandbox(folder / "db");
    _exit(act());
  }
  int status = 0;
  waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/// errno of a failed call; 0 if the call succeeded.
int fault_of(long result) { return result < 0 ? errno : 0; }

}  // namespace

TEST_CASE("a confined process can read files, but cannot write, connect, execute or signal") {
  const Folder folder;
  data::made::write(folder / "db", data::made::bytes_of("any"));
  const std::string file = (folder / "db").string(), other = (folder / "other").string();
  const auto result = [&](const std::function<long()>& call) {
    return confined(folder, [&] { return fault_of(call()); });
  };
  CHECK(result([&] { return open(file.c_str(), O_RDONLY); }) == 0);
  CHECK(result([&] { return open(file.c_str(), O_RDWR); }) == EPERM);
  CHECK(result([&] { return open(file.c_str(), O_RDONLY | O_TRUNC); }) == EPERM);
  CHECK(result([&] { return open(other.c_str(), O_WRONLY | O_CREAT, 0600); }) == EPERM);
  CHECK(result([&] { return syscall(SYS_open, file.c_str(), O_WRONLY); }) == EPERM);
  CHECK(result([&] { return unlink(file.c_str()); }) == EPERM);
  CHECK(result([&] { return rename(file.c_str(), other.c_str()); }) == EPERM);
  CHECK(result([] { return socket(AF_INET, SOCK_STREAM, 0); }) == EPERM);
  CHECK(result([] { return execl("/bin/true", "true", nullptr); }) == EPERM);
  CHECK(result([] { return kill(getppid(), 0); }) == EPERM);
  CHECK(data::made::read(folder / "db").size() == 3);
}

TEST_CASE("a confined process cannot signal or start other processes, or make special files") {
  const Folder folder;
  data::made::write(folder / "db", data::made::bytes_of("any"));
  const std::string other = (folder / "other").string();
  const auto result = [&](const std::function<long()>& call) {
    return confined(folder, [&] { return fault_of(call()); });
  };
  CHECK(result([] { return syscall(SYS_tgkill, getppid(), getppid(), 0); }) == EPERM);
  CHECK(result([] { return syscall(SYS_rt_sigqueueinfo, getppid(), 0, nullptr); }) == EPERM);
  CHECK(result([] { return syscall(SYS_pidfd_open, getppid(), 0); }) == EPERM);
  CHECK(result([] { return syscall(SYS_pidfd_send_signal, 0, 0, nullptr, 0); }) == EPERM);
  CHECK(result([] { return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }) == EPERM);
  CHECK(result([] { return syscall(SYS_clone3, nullptr, 0); }) == ENOSYS);
  CHECK(result([] { return syscall(SYS_io_uring_setup, 1, nullptr); }) == EPERM);
  CHECK(result([] { return syscall(SYS_prlimit64, getppid(), RLIMIT_CPU, 0, 0); }) == EPERM);
  CHECK(result([&] { return mkfifo(other.c_str(), 0600); }) == EPERM);
  CHECK(result([&] { return symlink("db", other.c_str()); }) == EPERM);
}

TEST_CASE("a confined process can start threads, signal its threads and abort") {
  const Folder folder;
  data::made::write(folder / "db", data::made::bytes_of("any"));
  CHECK(confined(folder, [] {
          int value = 0;
          std::thread([&] { value = 7; }).join();
          return value;
        }) == 7);
  CHECK(confined(folder, [] {
          return fault_of(syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), 0));
        }) == 0);
  CHECK(confined(folder, []() -> int {
          signal(SIGABRT, SIG_DFL);
          abort();
        }) == 1000 + SIGABRT);
}

TEST_CASE("a reader does not run if the system refuses its restrictions") {
  const Folder folder;
  data::made::write(folder / "db", data::made::bytes_of("any"));
  const pid_t process = fork();
  if (process == 0) {
    sock_filter rules[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                           BPF_JUMP(BPF_JMP | BPF_K | BPF_JEQ, SYS_prctl, 0, 1),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog program{4, rules};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) _exit(2);
    try {
      readers::enter_sandbox(folder / "db");
      _exit(0);
    } catch (const RunError&) {
      _exit(1);
    }
  }
  int status = 0;
  waitpid(process, &status, 0);
  CHECK(WEXITSTATUS(status) == 1);
}

TEST_CASE("a confined process has a memory limit, and a CPU time limit by the size of its file") {
  if (test::kIsSanitized) return;  // the sanitizers need more memory than the limit
  const Folder folder;
  data::made::write(folder / "db", data::made::Bytes(3 << 20));
  CHECK(confined(folder, [] {
          rlimit time{};
          getrlimit(RLIMIT_CPU, &time);
          return static_cast<int>(time.rlim_max);
        }) == 63);
  CHECK(confined(folder, [] {
          return mmap(nullptr, readers::kMaxMemoryBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED
                     ? 7
                     : 0;
        }) == 7);
}
