#include "core/failure.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <new>
#include <system_error>

#include "core/error.h"

using namespace poseidon;

TEST_CASE("each type of exception has a message and an exit code") {
  const auto told = [](auto error) {
    const std::exception_ptr thrown = std::make_exception_ptr(error);
    return std::pair(message_of(thrown), exit_code_of(thrown));
  };
  CHECK(told(ConfigError("a key")) == std::pair<std::string, int>("a key", 2));
  CHECK(told(RunError("a disk")) == std::pair<std::string, int>("a disk", 1));
  CHECK(told(PeerFailed("a node")) == std::pair<std::string, int>("a node", 3));
  CHECK(told(std::bad_alloc()) == std::pair<std::string, int>("out of memory", 1));
  CHECK(told(LogicError("a check")) == std::pair<std::string, int>("internal error: a check", 1));
  CHECK(told(7).second == 1);
}

TEST_CASE("a message about a refused thread names the limits to check") {
  const std::exception_ptr thrown = std::make_exception_ptr(
      std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)));
  CHECK(message_of(thrown) ==
        "the system refused a resource: Resource temporarily unavailable, perhaps a new thread; "
        "check ulimit -u and ulimit -v");
  CHECK(exit_code_of(thrown) == 1);
}

TEST_CASE("as_run_error() turns a ConfigError into a RunError") {
  CHECK(as_run_error([] { return 3; }) == 3);
  CHECK_THROWS_WITH_AS(as_run_error([]() -> int { throw ConfigError("gone"); }), "gone", RunError);
  CHECK_THROWS_AS(
      as_run_error([]() -> int { throw std::filesystem::filesystem_error("", std::error_code()); }),
      RunError);
  CHECK_THROWS_AS(as_run_error([]() -> int { throw PeerFailed("a node"); }), PeerFailed);
}
