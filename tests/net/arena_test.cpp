#include "net/arena.h"

#include <doctest/doctest.h>

#include "core/cpu/cpu_device.h"
#include "core/error.h"

namespace poseidon::net {
namespace {

TEST_CASE("arena: buffers with disjoint lifetimes share memory after it is allocated") {
  Arena arena;
  const int early = arena.add(6400, 0, 1, {0, "output"});
  const int late = arena.add(6400, 2, 3, {2, "output"});
  const int always = arena.add(128, 1, 1, {1, "workspace"});
  arena.extend(always, 0, 3);
  arena.lay_out();
  CHECK(arena.bytes() == 6528);
  CHECK(arena.memory(early) == nullptr);
  cpu::CpuDevice device(1);
  arena.allocate(device);
  CHECK(arena.memory(early) == arena.memory(late));
  CHECK(arena.memory(always) != arena.memory(late));
  CHECK(arena.memory(-1) == nullptr);
}

TEST_CASE("arena: the purpose of the largest buffer is known") {
  Arena arena;
  arena.add(100, 0, 1, {0, "output"});
  arena.add(300, 0, 1, {4, "workspace"});
  arena.add(200, 0, 1, {5, "output"});
  arena.lay_out();
  CHECK(arena.purpose_of(arena.largest()).call == 4);
  CHECK(arena.bytes_of(arena.largest()) == 300);
}

}  // namespace
}  // namespace poseidon::net
