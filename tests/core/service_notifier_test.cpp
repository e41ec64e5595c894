#include "core/service_notifier.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "core/error.h"
#include "tests/support/error_of.h"
#include "tests/support/service_manager.h"

using namespace poseidon;

namespace {

std::string unique(const std::string& beginning) {
  return beginning + "poseidon-notify-" + std::to_string(getpid());
}

void hear_all(const std::string& address) {
  ServiceManager manager(address);
  REQUIRE(manager.is_bound);
  const ServiceNotifier notifier(address);
  CHECK(notifier.ready());
  CHECK(notifier.status("training"));
  CHECK(notifier.alive());
  CHECK(notifier.stopping());
  CHECK(manager.all() ==
        std::vector<std::string>{"READY=1", "STATUS=training", "WATCHDOG=1", "STOPPING=1"});
}

}  // namespace

TEST_CASE("a service manager that listens at a path receives all reports") {
  const std::string path = unique(std::filesystem::temp_directory_path().string() + "/");
  hear_all(path);
  std::filesystem::remove(path);
}

TEST_CASE("a service manager that listens in the abstract namespace receives all reports") {
  hear_all(unique("@"));
}

TEST_CASE("a line break in a status is escaped, so that it cannot begin another assignment") {
  ServiceManager manager(unique("@"));
  CHECK(ServiceNotifier(unique("@")).status("job \"a\nMAINPID=1\""));
  CHECK(manager.next(0) == "STATUS=job \"a\\x0aMAINPID=1\"");
}

TEST_CASE("a notifier does not wait for an absent or full service manager") {
  const ServiceNotifier notifier(unique("@"));
  CHECK_FALSE(notifier.ready());
  const ServiceManager manager(unique("@"));
  int taken = 0;
  while (taken < 1'000'000 && notifier.alive()) ++taken;
  CHECK(taken > 0);
  CHECK(taken < 1'000'000);
}

TEST_CASE("an invalid NOTIFY_SOCKET is rejected") {
  const auto refused = [](const std::string& address) {
    return error_of<ConfigError>([&] { (void)ServiceNotifier(address); });
  };
  CHECK(refused("") ==
        "NOTIFY_SOCKET: expected an absolute path, or \"@\" and a name, of at most 107 bytes, got "
        "\"\"");
  CHECK(refused("vsock:2:1234").find("got \"vsock:2:1234\"") != std::string::npos);
  CHECK(refused("@") != "");
  CHECK(refused("/" + std::string(107, 'a')) != "");
  CHECK_NOTHROW(ServiceNotifier("@" + std::string(107, 'a')));
  CHECK_NOTHROW(ServiceNotifier("/" + std::string(106, 'a')));
}
