#include "core/buffer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>

#include "core/buffer_cache.h"
#include "core/error.h"

using namespace poseidon;

namespace {

bool aligned(const Buffer& buffer, uintptr_t alignment) {
  return reinterpret_cast<uintptr_t>(buffer.data()) % alignment == 0;
}

bool all_zero(const Buffer& buffer) {
  const auto bytes = buffer.as<unsigned char>();
  return std::all_of(bytes.begin(), bytes.end(), [](unsigned char byte) { return byte == 0; });
}

}  // namespace

TEST_CASE("a buffer is aligned to a cache line and filled with zeros") {
  for (size_t bytes : {size_t{1}, size_t{63}, size_t{64}, size_t{1000}}) {
    const Buffer buffer(bytes);
    CHECK(buffer.bytes() == bytes);
    CHECK(aligned(buffer, 64));
    CHECK(all_zero(buffer));
  }
}

TEST_CASE("a buffer of several MiB is aligned to a huge page") {
  const Buffer buffer(size_t{9} << 20);
  CHECK(aligned(buffer, uintptr_t{2} << 20));
  CHECK(all_zero(buffer));
}

TEST_CASE("an empty buffer has no memory") {
  CHECK(Buffer().data() == nullptr);
  CHECK(Buffer(0).data() == nullptr);
  CHECK(Buffer(0).as<float>().empty());
}

TEST_CASE("a buffer can be moved") {
  Buffer first(64);
  first.as<float>()[3] = 7;
  void* data = first.data();
  Buffer second(std::move(first));
  CHECK(second.data() == data);
  Buffer third;
  third = std::move(second);
  CHECK(third.as<float>()[3] == 7);
  CHECK(third.as<float>().size() == 16);
}

TEST_CASE("a buffer cache allocates only if no released buffer has the requested size") {
  int allocated = 0, released = 0;
  const auto allocate = [&](size_t bytes, std::string_view) {
    ++allocated;
    auto memory = std::make_shared<Buffer>(bytes);
    return Buffer(memory->data(), bytes, [memory, &released](void*, size_t) { ++released; });
  };
  Buffer outlives;
  {
    BufferCache cache(allocate);
    void* first = nullptr;
    {
      const Buffer one = cache.allocate(64, "a batch"), two = cache.allocate(64, "a batch");
      first = one.data();
      CHECK(two.data() != first);
      CHECK(one.bytes() == 64);
      CHECK(cache.allocate(0, "nothing").data() == nullptr);
    }
    CHECK(released == 0);
    const int before = allocated;
    const Buffer one = cache.allocate(64, "a batch"), two = cache.allocate(64, "a batch");
    CHECK((one.data() == first || two.data() == first));
    CHECK(one.data() != two.data());
    CHECK(allocated == before);
    outlives = cache.allocate(128, "a larger batch");
    CHECK(allocated == before + 1);
  }
  CHECK(released == 2);
  outlives = Buffer();
  CHECK(released == 3);
}

TEST_CASE("out of memory: the message names the size and the purpose") {
  // The sanitizers' allocators end the process instead.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const size_t bytes = size_t{1} << 60;
  CHECK_THROWS_WITH_AS(Buffer(bytes, "gradients"),
                       "out of memory: cannot allocate 1152.9 PB for gradients", OutOfMemory);
#endif
}
