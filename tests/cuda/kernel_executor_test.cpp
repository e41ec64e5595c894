// Kernels on the host: a fault of a kernel is visible in some order of its threads.

#include "tests/support/gpu/kernel_executor.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <vector>

#include "core/cuda/kernel.cuh"
#include "core/error.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::cuda;

namespace {

/// Reverses each block of the input through shared memory.
template <bool kSynchronizes>
struct Mirror {
  static constexpr const char* kName = "mirror";
  static constexpr uint32_t kThreads = 64;
  struct Shared {
    float values[kThreads];
  };

  const float* in;
  float* out;

  void visit(MemoryVisitor&) const {}
  POSEIDON_DEVICE void operator()(const Thread& thread, Shared& shared) const {
    const uint32_t first = thread.block() * kThreads, t = thread.thread();
    shared.values[t] = in[first + t];
    if (kSynchronizes) thread.synchronize();
    out[first + t] = shared.values[kThreads - 1 - t];
  }
};

/// Each thread gets the sum of its warp's values.
struct WarpSums {
  static constexpr const char* kName = "sums of warps";
  static constexpr uint32_t kThreads = 64;
  struct Shared {
    float unused;
  };

  float* out;

  void visit(MemoryVisitor&) const {}
  POSEIDON_DEVICE void operator()(const Thread& thread, Shared&) const {
    auto sum = static_cast<float>(thread.thread());
    for (uint32_t mask = 16; mask > 0; mask /= 2) sum += thread.shuffle_xor(sum, mask);
    out[thread.thread()] = sum;
  }
};

struct ReadsShared {
  static constexpr const char* kName = "reads shared memory";
  static constexpr uint32_t kThreads = 32;
  struct Shared {
    float value;
  };

  float* out;

  void visit(MemoryVisitor&) const {}
  POSEIDON_DEVICE void operator()(const Thread& thread, Shared& shared) const {
    out[thread.thread()] = shared.value;
  }
};

/// Faulty kernel: half of the threads return while the others wait.
struct Leaves {
  static constexpr const char* kName = "leaves";
  static constexpr uint32_t kThreads = 64;
  struct Shared {
    float unused;
  };

  void visit(MemoryVisitor&) const {}
  POSEIDON_DEVICE void operator()(const Thread& thread, Shared&) const {
    if (thread.thread() % 2 == 0) thread.synchronize();
  }
};

struct Order {
  static constexpr const char* kName = "order";
  static constexpr uint32_t kThreads = 32;

  std::vector<uint32_t>* seen;

  void visit(MemoryVisitor&) const {}
  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    seen->push_back((thread.block_y() * thread.blocks() + thread.block()) * 32 + thread.thread());
  }
};

template <class Kernel>
void run(uint64_t seed, const Kernel& kernel, const Grid& grid = {}) {
  KernelExecutor executor(seed);
  issue_kernel(kernel, grid, {.stream = nullptr, .host = &executor});
}

template <bool kSynchronizes>
bool mirrors(uint64_t seed) {
  std::vector<float> in(192), out(192), expected(192);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  for (size_t i = 0; i < in.size(); ++i) expected[i] = in[i / 64 * 64 + 63 - i % 64];
  run(seed, Mirror<kSynchronizes>{in.data(), out.data()}, {.blocks = 3});
  return out == expected;
}

}  // namespace

TEST_CASE("a kernel on the host: threads of a block wait at a barrier, in any order") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    CHECK(mirrors<true>(seed));
    CHECK_FALSE(mirrors<false>(seed));
  }
}

TEST_CASE("a kernel on the host: shared memory is initialized with NaN") {
  std::vector<float> out(32);
  run(1, ReadsShared{out.data()});
  for (const float value : out) CHECK(std::isnan(value));
}

TEST_CASE("a kernel on the host: lanes of a warp exchange values") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<float> out(64);
    run(seed, WarpSums{out.data()});
    for (size_t t = 0; t < 64; ++t) CHECK(out[t] == (t < 32 ? 496 : 1520));
  }
}

TEST_CASE("a kernel on the host: a thread that skips a barrier is an error") {
  for (uint64_t seed = 0; seed < 5; ++seed)
    CHECK(error_of<LogicError>([&] { run(seed, Leaves{}); }) ==
          "threads of a block do not meet at the same barrier or shuffle");
}

TEST_CASE("a kernel on the host: each thread of the grid runs once, in an order by seed") {
  std::set<std::vector<uint32_t>> orders;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    std::vector<uint32_t> seen;
    run(seed, Order{&seen}, {.blocks = 3, .blocks_y = 2});
    orders.insert(seen);
    CHECK(std::set<uint32_t>(seen.begin(), seen.end()).size() == 192);
    CHECK(seen.size() == 192);
  }
  CHECK(orders.size() == 10);
}
