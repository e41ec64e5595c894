#include "tests/support/gpu/fake_driver.h"

#include <sys/mman.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>
#include <typeinfo>
#include <vector>

#include "core/error.h"
#include "core/philox.h"
#include "core/trace.h"
#include "tests/support/gpu/access_log.h"
#include "tests/support/gpu/guarded_memory.h"
#include "tests/support/gpu/kernel_executor.h"

namespace poseidon::cuda {

namespace {

/// Staging memory of at least this size comes from mmap. Many tests touch little of it, and the
/// system allocates pages only when they are touched.
constexpr size_t kManyPages = size_t{1} << 20;

class CopyOperation final : public Operation {
 public:
  CopyOperation(const void* from, void* to, size_t bytes) : from_(from), to_(to), bytes_(bytes) {}

  std::string name() const override { return "copy"; }
  void visit(MemoryVisitor& visitor) const override {
    visitor.reads(from_, bytes_);
    visitor.writes(to_, bytes_);
  }
  void issue(const Executor&) const override { std::memcpy(to_, from_, bytes_); }

 private:
  const void* from_;
  void* to_;
  size_t bytes_;
};

/// Appends the type of an operation to the file named by POSEIDON_KERNELS, once per type.
/// bench/gpu/first_light --proofs reads there which kernels a test program runs.
void note_type(const Operation& operation) {
  static const char* const file = std::getenv("POSEIDON_KERNELS");
  if (file == nullptr) return;
  static std::mutex mutex;
  static std::set<std::string_view> noted;
  const std::lock_guard lock(mutex);
  const char* name = typeid(operation).name();
  if (noted.insert(name).second) std::ofstream(file, std::ios::app) << name << '\n';
}

/// Records the accesses of an operation in the log.
class Logger final : public MemoryVisitor {
 public:
  Logger(AccessLog& log, const Stamp& by, const Clock& before)
      : log_(log), by_(by), before_(before) {}

  void reads(const void* data, size_t bytes) override {
    if (bytes > 0) log_.read(data, bytes, by_, before_);
  }
  void writes(const void* data, size_t bytes) override {
    if (bytes > 0) log_.write(data, bytes, by_, before_);
  }

 private:
  AccessLog& log_;
  const Stamp& by_;
  const Clock& before_;
};

}  // namespace

class FakeDriver::MachineEvent final : public StreamEvent,
                                       public std::enable_shared_from_this<MachineEvent> {
 public:
  explicit MachineEvent(std::shared_ptr<Machine> machine) : machine_(std::move(machine)) {}

  bool reached() const override;
  void wait() const override;
  void then(std::function<void()> task) const override;

  // Guarded by the machine's mutex.
  Clock clock;
  mutable bool is_reached = false;
  mutable int64_t reached_ns = 0;
  mutable std::vector<std::function<void()>> tasks;

 private:
  const std::shared_ptr<Machine> machine_;
};

/// State that the driver and its events share. Members may be called from any thread.
class FakeDriver::Machine {
 public:
  explicit Machine(const Options& options)
      : options_(options),
        random_(options.seed, RandomPurpose::kGeneration, 1, 0),
        executor_(options.seed),
        thread_([this](const std::stop_token& stop) { live(stop); }) {}

  ~Machine() { stop(); }

  void stop() {
    thread_.request_stop();
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
    // Events own the machine. So an event that stays in a queue would keep the machine in memory.
    std::deque<std::function<void()>> tasks;
    const std::lock_guard lock(mutex_);
    while (step()) {
    }
    for (WorkQueue& queue : streams_) queue.items.clear();
    tasks.swap(due_);
  }

  size_t add_stream() {
    const std::lock_guard lock(mutex_);
    streams_.emplace_back();
    return streams_.size() - 1;
  }

  void issue(size_t stream, std::shared_ptr<const Operation> operation) {
    const std::lock_guard lock(mutex_);
    throw_failure();
    WorkQueue& queue = streams_[stream];
    queue.clock.join(host_);
    const Clock before = queue.clock;
    queue.clock.tick(stream);
    const Stamp by{stream, queue.clock.of(stream), operation->name()};
    Logger logger(log_, by, before);
    operation->visit(logger);
    memory_.issued(*operation, by);
    count_staging(*operation);
    queue.items.push_back({.operation = std::move(operation), .mark = {}, .awaited = {}});
    advance();
  }

  void record(size_t stream, const std::shared_ptr<MachineEvent>& mark) {
    const std::lock_guard lock(mutex_);
    WorkQueue& queue = streams_[stream];
    queue.clock.join(host_);
    mark->clock = queue.clock;
    queue.items.push_back({.operation = {}, .mark = mark, .awaited = {}});
    advance();
  }

  void wait(size_t stream, const std::shared_ptr<const MachineEvent>& mark) {
    const std::lock_guard lock(mutex_);
    if (options_.waits != nullptr) ++*options_.waits;
    if (waits_++ == options_.dropped_wait) return;
    WorkQueue& queue = streams_[stream];
    queue.clock.join(mark->clock);
    queue.items.push_back({.operation = {}, .mark = {}, .awaited = mark});
    advance();
  }

  bool observe(const MachineEvent& mark) {
    const std::lock_guard lock(mutex_);
    advance();
    if (mark.is_reached) host_learns(mark.clock);
    return mark.is_reached;
  }

  bool has_come_to(const MachineEvent& mark) {
    const std::lock_guard lock(mutex_);
    return mark.is_reached;
  }

  void wait(const MachineEvent& mark) {
    const std::lock_guard lock(mutex_);
    if (options_.host_waits != nullptr && !host_.includes(mark.clock)) ++*options_.host_waits;
    while (!mark.is_reached) {
      throw_failure();
      check(step(), "what is waited for can be done");
    }
    host_learns(mark.clock);
  }

  void then(const MachineEvent& mark, std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      if (!mark.is_reached) {
        mark.tasks.push_back(std::move(task));
        return;
      }
      memory_.host_waited_for(mark.clock);
    }
    task();
  }

  void allocated(const void* data, size_t bytes, MemoryKind place) {
    const std::lock_guard lock(mutex_);
    if (options_.allocations != nullptr) ++*options_.allocations;
    memory_.add(data, bytes, place);
  }

  void release(void* data, size_t bytes) {
    const std::lock_guard lock(mutex_);
    while (step()) {
    }
    for (const WorkQueue& queue : streams_) host_learns(queue.clock);
    log_.forget(data, bytes);
    memory_.remove(data, bytes);
  }

 private:
  /// An operation, an event to record, or an event to wait for.
  struct Item {
    std::shared_ptr<const Operation> operation;
    std::shared_ptr<const MachineEvent> mark, awaited;
  };
  struct WorkQueue {
    std::deque<Item> items;
    Clock clock;
  };

  /// Called whenever the host calls the driver: does as many items as the seed says.
  void advance() {
    ++visits_;
    if (options_.seed == 0) {
      while (step()) {
      }
      return;
    }
    for (uint32_t left = random_.next_below(2) * random_.next_below(6); left > 0; --left) step();
  }

  /// Does the next item of a random stream that is ready. Returns false if none is ready.
  bool step() {
    std::vector<WorkQueue*> ready;
    for (WorkQueue& queue : streams_)
      if (!queue.items.empty() &&
          (queue.items.front().awaited == nullptr || queue.items.front().awaited->is_reached))
        ready.push_back(&queue);
    if (ready.empty()) return false;
    WorkQueue& queue = *ready[random_.next_below(static_cast<uint32_t>(ready.size()))];
    const Item item = std::move(queue.items.front());
    queue.items.pop_front();
    if (item.operation != nullptr) carry_out(*item.operation);
    if (item.mark != nullptr) reach(*item.mark);
    return true;
  }

  void carry_out(const Operation& operation) {
    note_type(operation);
    memory_.open(operation);
    try {
      operation.issue({.stream = nullptr, .host = &executor_});
    } catch (...) {
      failure_ = std::current_exception();
    }
    memory_.close(operation);
  }

  void host_learns(const Clock& clock) {
    host_.join(clock);
    memory_.host_waited_for(clock);
  }

  void reach(const MachineEvent& mark) {
    mark.is_reached = true;
    // The event's tasks know that it is reached. The thread that issues work does not.
    if (!mark.tasks.empty()) memory_.host_waited_for(mark.clock);
    mark.reached_ns = TraceRecorder::now();
    for (auto& task : mark.tasks) due_.push_back(std::move(task));
    mark.tasks.clear();
    changed_.notify_all();
  }

  void count_staging(const Operation& operation) {
    if (dynamic_cast<const CopyOperation*>(&operation) == nullptr) {
      if (options_.kernel_staging_bytes != nullptr)
        *options_.kernel_staging_bytes += memory_.staging_access(operation).total();
    } else if (options_.copies_to_staging != nullptr) {
      *options_.copies_to_staging += memory_.staging_access(operation).written > 0 ? 1 : 0;
    }
  }

  void throw_failure() {
    if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  /// The machine's thread: runs the tasks of events, and continues the work while the host does not
  /// call the driver.
  void live(const std::stop_token& stop) {
    using namespace std::chrono_literals;
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      if (!due_.empty()) {
        const auto task = std::move(due_.front());
        due_.pop_front();
        lock.unlock();
        std::exception_ptr failure;
        try {
          task();
        } catch (...) {
          failure = std::current_exception();
        }
        lock.lock();
        if (failure != nullptr) failure_ = failure;
        continue;
      }
      const uint64_t visits = visits_;
      changed_.wait_for(lock, 300us);
      if (visits == visits_) step();
    }
  }

  const Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  RandomStream random_;
  KernelExecutor executor_;
  AccessLog log_;
  GuardedMemory memory_;
  std::deque<WorkQueue> streams_;
  Clock host_;  ///< operations that the host knows to be complete
  std::deque<std::function<void()>> due_;
  std::exception_ptr failure_;
  int64_t waits_ = 0;
  uint64_t visits_ = 0;  ///< calls by the host
  std::jthread thread_;
};

/// Reading a timestamp is not a wait, so it does not add to the operations that the host knows to
/// be complete.
class FakeDriver::MachineTimestamp final : public Timestamp {
 public:
  MachineTimestamp(std::shared_ptr<Machine> machine, std::shared_ptr<const MachineEvent> mark)
      : machine_(std::move(machine)), mark_(std::move(mark)) {}

  bool reached() const override { return machine_->has_come_to(*mark_); }
  int64_t nanoseconds() const override {
    check(reached(), "what is not reached has no time");
    return mark_->reached_ns;
  }

 private:
  const std::shared_ptr<Machine> machine_;
  const std::shared_ptr<const MachineEvent> mark_;
};

bool FakeDriver::MachineEvent::reached() const { return machine_->observe(*this); }
void FakeDriver::MachineEvent::wait() const { machine_->wait(*this); }
void FakeDriver::MachineEvent::then(std::function<void()> task) const {
  machine_->then(*this, std::move(task));
}

FakeDriver::FakeDriver(const Options& options)
    : memory_(options.memory),
      refuses_graphs_(options.seed != 0),
      refusals_(options.seed),
      machine_(std::make_shared<Machine>(options)) {}

FakeDriver::~FakeDriver() { machine_->stop(); }

Buffer FakeDriver::allocate(size_t bytes, MemoryKind place, std::string_view purpose) {
  const size_t counted = place == MemoryKind::kDevice ? bytes : 0;
  if (counted > available())
    throw OutOfMemory(text("out of memory: cannot allocate ", bytes, " bytes for ", purpose));
  Buffer memory =
      place == MemoryKind::kStaging && bytes >= kManyPages ? pages(bytes) : plain(bytes, counted);
  machine_->allocated(memory.data(), bytes, place);
  return memory;
}

Buffer FakeDriver::plain(size_t bytes, size_t counted) {
  // Exactly the requested size, so that a sanitizer detects accesses beyond it.
  void* data = nullptr;
  check(::posix_memalign(&data, 64, std::max<size_t>(bytes, 1)) == 0, "a test has memory");
  std::memset(data, 0, bytes);
  *taken_ += counted;
  return Buffer(data, bytes,
                [machine = machine_, taken = taken_, counted](void* memory, size_t size) {
                  machine->release(memory, size);
                  *taken -= counted;
                  std::free(memory);
                });
}

Buffer FakeDriver::pages(size_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(data != MAP_FAILED, "a test has memory");
  return Buffer(data, bytes, [machine = machine_](void* memory, size_t size) {
    machine->release(memory, size);
    ::munmap(memory, size);
  });
}

Stream FakeDriver::make_stream(StreamPriority) {
  return static_cast<Stream>(machine_->add_stream());
}

void FakeDriver::issue(Stream stream, std::unique_ptr<const Operation> operation) {
  machine_->issue(static_cast<size_t>(stream), std::move(operation));
}

void FakeDriver::copy(Stream stream, const void* from, void* to, size_t bytes) {
  issue(stream, std::make_unique<CopyOperation>(from, to, bytes));
}

/// A graph is issued as its nodes in sequence.
std::shared_ptr<const Graph> FakeDriver::make_graph(Stream, std::vector<GraphNode> nodes) {
  if (refuses_graphs_ && refusals_() % 4 == 0) throw RunError("an emulated refusal");
  return std::make_shared<const Graph>(std::move(nodes));
}

void FakeDriver::issue(Stream stream, const std::shared_ptr<const Graph>& graph) {
  for (const GraphNode& node : graph->nodes())
    if (node.operation != nullptr)
      machine_->issue(static_cast<size_t>(stream), node.operation);
    else
      copy(stream, node.from, node.to, node.bytes);
}

std::shared_ptr<const StreamEvent> FakeDriver::record(Stream stream) {
  auto mark = std::make_shared<MachineEvent>(machine_);
  machine_->record(static_cast<size_t>(stream), mark);
  return mark;
}

std::shared_ptr<const Timestamp> FakeDriver::record_timestamp(Stream stream) {
  auto mark = std::make_shared<MachineEvent>(machine_);
  machine_->record(static_cast<size_t>(stream), mark);
  return std::make_shared<MachineTimestamp>(machine_, std::move(mark));
}

void FakeDriver::wait(Stream stream, const std::shared_ptr<const StreamEvent>& mark) {
  machine_->wait(static_cast<size_t>(stream), std::static_pointer_cast<const MachineEvent>(mark));
}

}  // namespace poseidon::cuda
