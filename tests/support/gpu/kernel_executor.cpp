#include "tests/support/gpu/kernel_executor.h"

#include <cstdlib>
#include <exception>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "tests/support/gpu/fiber.h"

namespace poseidon::cuda {

namespace {

constexpr uint32_t kWarp = 32;

enum class State : uint8_t { kReady, kAtBarrier, kAtShuffle, kDone };

}  // namespace

/// The threads of one block that share memory, each a fiber.
class KernelExecutor::Block {
 public:
  explicit Block(KernelExecutor& executor) : executor_(executor) {}

  void run(uint32_t block, uint32_t block_y, uint32_t blocks, uint32_t threads, size_t shared_bytes,
           const Body& body) {
    shared_.assign((shared_bytes + sizeof(Line) - 1) / sizeof(Line), Line{});
    for (Line& line : shared_) std::fill(std::begin(line.bytes), std::end(line.bytes), 0xFF);
    while (members_.size() < threads) members_.push_back(std::make_unique<Member>(*this));
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
  class Member final : public BlockMates {
   public:
    explicit Member(Block& block) : block_(block) {}

    void begin(const Thread& thread, const Body& body) {
      lane_ = thread.thread();
      state = State::kReady;
      fiber_.begin([this, thread, &body] {
        try {
          body(thread, block_.shared_.data());
        } catch (...) {
          block_.failure_ = std::current_exception();
        }
        state = State::kDone;
      });
    }
    void go_on() { fiber_.resume(); }

    void synchronize() override {
      state = State::kAtBarrier;
      fiber_.suspend();
    }
    uint64_t shuffle(uint64_t value, uint32_t lane) override {
      given_ = value;
      from_ = lane;
      state = State::kAtShuffle;
      fiber_.suspend();
      return taken_;
    }
    void take(const std::vector<std::unique_ptr<Member>>& members) {
      taken_ = members[lane_ / kWarp * kWarp + from_]->given_;
    }

    State state = State::kDone;

   private:
    Block& block_;
    Fiber fiber_;
    uint32_t lane_ = 0;
    uint64_t given_ = 0, taken_ = 0;
    uint32_t from_ = 0;
  };

  /// Lets one thread after another go to where it waits, until all are done.
  bool go_on() {
    bool any = false;
    for (const uint32_t t : executor_.order_of(threads_)) {
      if (members_[t]->state != State::kReady) continue;
      members_[t]->go_on();
      any = true;
      if (failure_) return abandon();
    }
    if (any) return true;
    return release_warps() || release_block();
  }

  /// After a failure the other threads are left where they are.
  bool abandon() {
    members_.clear();
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
  std::vector<std::unique_ptr<Member>> members_;
  uint32_t threads_ = 0;
  std::exception_ptr failure_;
};

KernelExecutor::KernelExecutor(uint64_t seed)
    : shuffles_(seed != 0),
      random_(seed, RandomPurpose::kGeneration, 0, 0),
      block_(std::make_unique<Block>(*this)) {}

KernelExecutor::~KernelExecutor() = default;

std::vector<uint32_t> KernelExecutor::order_of(uint32_t count) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  if (shuffles_)
    for (uint32_t i = count; i > 1; --i) std::swap(order[i - 1], order[random_.next_below(i)]);
  return order;
}

void KernelExecutor::run(uint32_t blocks, uint32_t blocks_y, uint32_t threads, size_t shared_bytes,
                         const Body& body) {
  check(threads % kWarp == 0 && threads > 0 && threads <= 1024, "a block is whole warps");
  for (const uint32_t number : order_of(blocks * blocks_y)) {
    const uint32_t block = number % blocks, block_y = number / blocks;
    if (shared_bytes > 0)
      block_->run(block, block_y, blocks, threads, shared_bytes, body);
    else
      for (const uint32_t t : order_of(threads))
        body(Thread(block, block_y, t, blocks, threads, nullptr), nullptr);
  }
}

}  // namespace poseidon::cuda
