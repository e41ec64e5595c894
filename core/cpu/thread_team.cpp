#include "core/cpu/thread_team.h"

#include <omp.h>

#include <algorithm>
#include <utility>

namespace poseidon::cpu {

namespace {

/// The team whose helper the calling thread is, and the thread's number in this team.
thread_local const ThreadTeam* team_of_thread = nullptr;
thread_local int number_in_team = 0;

/// The caller spins for this time before it checks whether the system has interrupted a helper.
constexpr auto kPatience = std::chrono::microseconds(50);
/// An interruption that costs less than this is not worth a pause.
constexpr auto kShortInterruption = std::chrono::milliseconds(2);

/// Clears a flag at the end of a scope.
class ClearedAtEnd {
 public:
  explicit ClearedAtEnd(std::atomic_flag& flag) : flag_(flag) {}
  ~ClearedAtEnd() { flag_.clear(std::memory_order_release); }
  ClearedAtEnd(const ClearedAtEnd&) = delete;
  ClearedAtEnd& operator=(const ClearedAtEnd&) = delete;

 private:
  std::atomic_flag& flag_;
};

/// A helper that worked when the caller began to wait.
class AwaitedHelper {
 public:
  explicit AwaitedHelper(TeamHelper& helper) : helper_(&helper) {}

  /// Whether the thread still works, but ran for less than half of the time since the last call.
  bool is_interrupted() {
    const Times now = times();
    const bool ran = now.used - last_.used >= (now.wall - last_.wall) / 2;
    last_ = now;
    interrupted_ = !ran && helper_->works();
    return interrupted_;
  }
  /// Pauses the helper if is_interrupted() was true, and that cost much time.
  void pause_if_interrupted() const {
    const Times now = times();
    const auto lost = (now.wall - first_.wall) - (now.used - first_.used);
    if (interrupted_ && lost >= kShortInterruption) helper_->pause();
  }

 private:
  struct Times {
    std::chrono::nanoseconds wall, used;
  };
  Times times() const {
    return {std::chrono::steady_clock::now().time_since_epoch(), helper_->processor_time()};
  }

  TeamHelper* helper_;
  Times first_ = times(), last_ = first_;
  bool interrupted_ = false;
};

}  // namespace

ThreadTeam::ThreadTeam(int threads)
    : threads_(std::max(1, threads)), shares_(static_cast<size_t>(threads_)) {
  try {
    for (int thread = 1; thread < threads_; ++thread)
      helpers_.push_back(std::make_unique<TeamHelper>(
          [this, thread](TeamHelper& helper) { help(helper, thread); }));
  } catch (...) {
    stop();
    throw;
  }
}

ThreadTeam::~ThreadTeam() { stop(); }

void ThreadTeam::stop() {
  stops_ = true;
  ++calls_;
  for (const auto& helper : helpers_) helper->wake();
  helpers_.clear();  // joins the threads while the other members exist
}

void ThreadTeam::run_alone(int64_t count, const void* body, Call call) const {
  const int thread = team_of_thread == this ? number_in_team : 0;
  for (int64_t task = 0; task < count; ++task) call(body, task, thread);
}

void ThreadTeam::run_tasks(int64_t count, const void* body, Call call) {
  if (count <= 1 || helpers_.empty() || in_call_.test_and_set(std::memory_order_acquire))
    return run_alone(count, body, call);
  const ClearedAtEnd in_call(in_call_);
  choose_helpers(count);
  if (chosen_.empty()) return run_alone(count, body, call);
  const auto begin = Clock::now();
  publish(count, body, call);
  wait_for_helpers(static_cast<uint32_t>(count) - work(0));
  const auto time = Clock::now() - begin;
  for (const int thread : chosen_) helper(thread).judge(calls_, time);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadTeam::choose_helpers(int64_t count) {
  chosen_.clear();
  for (int thread = 1; thread < threads_ && std::ssize(chosen_) < count - 1; ++thread)
    if (helper(thread).may_help()) chosen_.push_back(thread);
}

void ThreadTeam::publish(int64_t count, const void* body, Call call) {
  body_ = body;
  call_ = call;
  number_ = calls_.load(std::memory_order_relaxed) + 1;
  failed_.store(false, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  const int64_t parts = std::ssize(chosen_) + 1;
  const auto open = [&](int thread, int64_t part) {
    Share& share = shares_[static_cast<size_t>(thread)];
    share.end = count * (part + 1) / parts;
    share.left.store(static_cast<uint32_t>(share.end - count * part / parts),
                     std::memory_order_release);
  };
  for (int64_t part = 1; part < parts; ++part) open(chosen_[static_cast<size_t>(part) - 1], part);
  open(0, 0);
  calls_.fetch_add(1);
  for (const int thread : chosen_) helper(thread).wake();
}

uint32_t ThreadTeam::work(int thread) {
  uint32_t tasks = 0;
  for (int i = 0; i < threads_; ++i) {
    Share& share = shares_[static_cast<size_t>((thread + i) % threads_)];
    uint32_t left = share.left.load(std::memory_order_relaxed);
    while (left != 0) {
      if (!share.left.compare_exchange_weak(left, left - 1, std::memory_order_acquire)) continue;
      if (thread > 0) helper(thread).set_call(number_);
      run_task(share, left, thread);
      ++tasks;
      left = share.left.load(std::memory_order_relaxed);
    }
  }
  return tasks;
}

void ThreadTeam::run_task(const Share& share, uint32_t left, int thread) noexcept {
  if (!failed_.load(std::memory_order_relaxed)) {
    try {
      call_(body_, share.end - left, thread);
    } catch (...) {
      if (!failed_.exchange(true)) error_ = std::current_exception();
    }
  }
  if (thread == 0) return;
  // The caller first sets caller_sleeps_, then reads done_. This thread does both in the other
  // order, so one of the two threads sees the other's change.
  done_.fetch_add(1);
  if (caller_sleeps_) done_.notify_one();
}

bool ThreadTeam::spin_until_complete(uint32_t tasks) const {
  const auto complete = [&] { return done_.load(std::memory_order_acquire) == tasks; };
  const auto end = Clock::now() + kPatience;
  do {
    for (int i = 0; i < 8; ++i) {
      if (complete()) return true;
      relax();
    }
  } while (Clock::now() < end);
  return complete();
}

void ThreadTeam::wait_for_helpers(uint32_t tasks) noexcept {
  if (done_.load(std::memory_order_acquire) == tasks || spin_until_complete(tasks)) return;
  std::vector<AwaitedHelper> awaited;
  for (const auto& helper : helpers_)
    if (helper->works()) awaited.emplace_back(*helper);
  const auto is_interrupted = [](AwaitedHelper& one) { return one.is_interrupted(); };
  do {
    if (spin_until_complete(tasks)) return;
  } while (std::ranges::none_of(awaited, is_interrupted));
  sleep_until_complete(tasks);
  for (AwaitedHelper& one : awaited) one.pause_if_interrupted();
}

void ThreadTeam::sleep_until_complete(uint32_t tasks) {
  caller_sleeps_ = true;
  for (uint32_t done = done_; done != tasks; done = done_) done_.wait(done);
  caller_sleeps_ = false;
}

void ThreadTeam::help(TeamHelper& helper, int thread) {
  team_of_thread = this;
  number_in_team = thread;
  omp_set_num_threads(1);  // a primitive of oneDNN that a task runs starts no further threads
  for (uint32_t seen = 0; !stops_;) {
    helper.wait_for_call(calls_, seen, stops_);
    seen = calls_;
    helper.set_works(true);
    work(thread);
    helper.set_works(false);
  }
}

}  // namespace poseidon::cpu
