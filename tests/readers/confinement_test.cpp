#include "readers/sandbox.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

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
