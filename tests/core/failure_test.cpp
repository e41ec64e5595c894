#include "core/failure.h"

#include <doctest/doctest.h>

#include <new>

#include "core/error.h"

using namespace poseidon;

TEST_CASE("what was thrown is told in words, and by an exit code") {
  const auto told = [](auto error) {
    const std::exception_ptr thrown = std::make_exception_ptr(error);
    return std::pair(message_of(thrown), exit_code_of(thrown));
  };
  CHECK(told(ConfigError("a key")) == std::pair<std::string, int>("a key", 2));
  CHECK(told(RunError("a disk")) == std::pair<std::string, int>("a disk", 1));
  CHECK(told(PeerLost("a node")) == std::pair<std::string, int>("a node", 3));
  CHECK(told(std::bad_alloc()) == std::pair<std::string, int>("out of memory", 1));
  CHECK(told(LogicError("a check")) == std::pair<std::string, int>("internal error: a check", 1));
  CHECK(told(7).second == 1);
}
