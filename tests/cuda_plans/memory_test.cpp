// Memory of products that the libraries do not manage: workspaces and conversions.

#include <doctest/doctest.h>

#include <vector>

#include "core/bf16.h"
#include "layers/cuda/runtime/workspace.h"
#include "layers/cuda/widen.h"
#include "tests/support/gpu/kernel_executor.h"

using namespace poseidon;
using layers::cuda::aligned;
using layers::cuda::with_alignment;

namespace {

struct alignas(64) Line {
  std::byte bytes[64];
};

class Extent final : public poseidon::cuda::MemoryVisitor {
 public:
  void reads(const void*, size_t bytes) override { read += bytes; }
  void writes(const void*, size_t bytes) override { written += bytes; }
  size_t read = 0, written = 0;
};

}  // namespace

TEST_CASE("a workspace is aligned within its requested size") {
  CHECK(with_alignment(0) == 0);
  std::vector<Line> memory(16);
  for (size_t i = 0; i < 8; ++i) {
    std::byte* given = memory[i].bytes;
    std::byte* begin = aligned(given);
    CHECK(reinterpret_cast<uintptr_t>(begin) % 256 == 0);
    CHECK(begin >= given);
    CHECK(begin + 100 <= given + with_alignment(100));
  }
}

TEST_CASE("bf16 values are widened exactly, and no memory beyond them is written") {
  for (const size_t count : {1U, 7U, 8U, 9U, 2048U, 2049U, 5001U}) {
    CAPTURE(count);
    std::vector<Line> from_lines(count * sizeof(Bf16) / sizeof(Line) + 1);
    std::vector<Line> to_lines((count + 1) * sizeof(float) / sizeof(Line) + 1);
    auto* from = reinterpret_cast<Bf16*>(from_lines.data());
    auto* to = reinterpret_cast<float*>(to_lines.data());
    for (size_t i = 0; i < count; ++i) from[i] = 0.37F * static_cast<float>(i) - 400;
    to[count] = -1;
    const auto work = layers::cuda::widening(from, to, static_cast<int64_t>(count));
    poseidon::cuda::KernelExecutor host(count);
    work->issue({.host = &host});
    for (size_t i = 0; i < count; ++i) REQUIRE(to[i] == static_cast<float>(from[i]));
    CHECK(to[count] == -1);
    Extent extent;
    work->visit(extent);
    CHECK(extent.read == count * sizeof(Bf16));
    CHECK(extent.written == count * sizeof(float));
  }
}
