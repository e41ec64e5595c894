#include "tests/support/gpu/kernel_executor.h"

#include <sys/mman.h>

#include <cstring>
#include <exception>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "core/buffer.h"
#include "core/error.h"
#include "core/philox.h"
#include "tests/support/gpu/fiber.h"

namespace poseidon::cuda {

namespace {

constexpr uint32_t kWarp = 32;

/// mmap: the system allocates pages only when they are touched, and most of a stack is never
/// touched.
Buffer pages_for_stacks(size_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(data != MAP_FAILED, "a test has memory");
  return Buffer(data, bytes, [](void* memory, size_t size) { ::munmap(memory, size); });
}

enum class State : uint8_t { kReady, kAtBarrier, kAtShuffle, kDone };

}  // namespace

/// The threads of one block that share memory. Each is a fiber. The next block reuses the fibers.
class KernelExecutor::Block {
 public:
  explicit Block(KernelExecutor& executor) : executor_(executor) {}

  void run(uint32_t block, uint32_t block_y, uint32_t blocks, uint32_t threads, size_t shared_bytes,
           const ThreadBody& body) {
    shared_.resize((shared_bytes + sizeof(Line) - 1) / sizeof(Line));
    std::memset(shared_.data(), 0xFF, shared_.size() * sizeof(Line));
    if (members_.size() < threads) add_members(threads);
    threads_ = threads;
    failure_ = nullptr;
    for (uint32_t t = 0; t < threads; ++t)
      members_[t]->begin(Thread(block, block_y, t, blocks, threads, members_[t].get()), body);
    while (go_on()) {
    }
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  struct alignas(64) Line {
    unsigned char bytes[64];
  };

  /// One thread.
  class Member final : public Fiber, public BlockMates {
   public:
    Member(Block& block, std::span<std::byte> stack) : Fiber(stack), block_(block) {}

    void begin(const Thread& thread, const ThreadBody& body) {
      thread_.emplace(thread);
      body_ = &body;
      state = State::kReady;
    }
    POSEIDON_KERNEL_CODE void synchronize() override {
      state = State::kAtBarrier;
      suspend();
    }
    POSEIDON_KERNEL_CODE uint64_t shuffle(uint64_t value, uint32_t lane) override {
      given_ = value;
      from_ = lane;
      state = State::kAtShuffle;
      suspend();
      return taken_;
    }
    void take(const std::vector<std::unique_ptr<Member>>& members) {
      taken_ = members[thread_->warp() * kWarp + from_]->given_;
    }

    State state = State::kDone;

   private:
    POSEIDON_KERNEL_CODE void run() override {
      try {
        body_->run(*thread_, block_.shared_.data());
      } catch (...) {
        block_.failure_ = std::current_exception();
      }
      state = State::kDone;
    }

    Block& block_;
    std::optional<Thread> thread_;
    const ThreadBody* body_ = nullptr;
    uint64_t given_ = 0, taken_ = 0;
    uint32_t from_ = 0;
  };

  void add_members(uint32_t threads) {
    const size_t added = threads - members_.size();
    stacks_.push_back(pages_for_stacks(added * Fiber::kStackBytes));
    const std::span<std::byte> stacks = stacks_.back().as<std::byte>();
    for (size_t i = 0; i < added; ++i)
      members_.push_back(std::make_unique<Member>(
          *this, stacks.subspan(i * Fiber::kStackBytes, Fiber::kStackBytes)));
  }

  /// Resumes each ready thread until it waits or returns. Then releases threads that wait for each
  /// other. Returns false when all threads are done.
  bool go_on() {
    bool any = false;
    executor_.put_in_order(order_, threads_);
    for (const uint32_t t : order_) {
      if (members_[t]->state != State::kReady) continue;
      members_[t]->resume();
      any = true;
      if (failure_) return abandon();
    }
    if (any) return true;
    return release_warps() || release_block();
  }

  /// After a failure the other threads never continue.
  bool abandon() {
    members_.clear();
    stacks_.clear();
    return false;
  }

  bool release_warps() {
    bool any = false;
    for (uint32_t first = 0; first < threads_; first += kWarp) {
      if (count(first, kWarp, State::kAtShuffle) != kWarp) continue;
      for (uint32_t t = first; t < first + kWarp; ++t) members_[t]->take(members_);
      for (uint32_t t = first; t < first + kWarp; ++t) members_[t]->state = State::kReady;
      any = true;
    }
    return any;
  }

  bool release_block() {
    if (count(0, threads_, State::kDone) == threads_) return false;
    if (count(0, threads_, State::kAtBarrier) != threads_) {
      abandon();
      throw LogicError("threads of a block do not meet at the same barrier or shuffle");
    }
    for (uint32_t t = 0; t < threads_; ++t) members_[t]->state = State::kReady;
    return true;
  }

  uint32_t count(uint32_t first, uint32_t threads, State state) const {
    uint32_t found = 0;
    for (uint32_t t = first; t < first + threads; ++t)
      found += members_[t]->state == state ? 1U : 0U;
    return found;
  }

  KernelExecutor& executor_;
  std::vector<Line> shared_;
  std::vector<Buffer> stacks_;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<uint32_t> order_;
  uint32_t threads_ = 0;
  std::exception_ptr failure_;
};

KernelExecutor::KernelExecutor(uint64_t seed)
    : random_(RandomStream(seed, RandomPurpose::kGeneration, 0, 0).next_word() | 1U),
      shuffles_(seed != 0),
      block_(std::make_unique<Block>(*this)) {}

KernelExecutor::~KernelExecutor() = default;

uint32_t KernelExecutor::random_below(uint32_t bound) {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return static_cast<uint32_t>(((random_ >> 32) * bound) >> 32);
}

void KernelExecutor::put_in_order(std::vector<uint32_t>& numbers, uint32_t count) {
  if (numbers.size() != count) {
    numbers.resize(count);
    std::iota(numbers.begin(), numbers.end(), 0U);
  }
  if (shuffles_)
    for (uint32_t i = count; i > 1; --i) std::swap(numbers[i - 1], numbers[random_below(i)]);
}

void KernelExecutor::run(uint32_t blocks, uint32_t blocks_y, uint32_t threads, size_t shared_bytes,
                         const ThreadBody& body) {
  check(threads % kWarp == 0 && threads > 0 && threads <= 1024, "a block is whole warps");
  put_in_order(blocks_, blocks * blocks_y);
  for (const uint32_t number : blocks_) {
    const uint32_t block = number % blocks, block_y = number / blocks;
    if (shared_bytes > 0) {
      block_->run(block, block_y, blocks, threads, shared_bytes, body);
      continue;
    }
    put_in_order(threads_, threads);
    for (const uint32_t t : threads_)
      body.run(Thread(block, block_y, t, blocks, threads, nullptr), nullptr);
  }
}

}  // namespace poseidon::cuda
