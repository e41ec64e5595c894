#include "bench/gpu/cost_model_driver.h"

#include <sys/mman.h>

#include <algorithm>

#include "core/error.h"

namespace poseidon::bench {

namespace {

/// An event that is always reached, because the driver executes no work.
class ReachedEvent final : public cuda::StreamEvent {
 public:
  explicit ReachedEvent(std::shared_ptr<DriverCalls> calls) : calls_(std::move(calls)) {}

  bool reached() const override { return true; }
  void wait() const override { ++calls_->host_waits; }
  void then(std::function<void()> task) const override { task(); }

 private:
  const std::shared_ptr<DriverCalls> calls_;
};

}  // namespace

class CostModelDriver::ByteCount final : public cuda::MemoryVisitor {
 public:
  explicit ByteCount(const Memory& device) : device_(device) {}
  void reads(const void* data, size_t bytes) override { add(data, bytes); }
  void writes(const void* data, size_t bytes) override { add(data, bytes); }
  double on_device = 0, on_host = 0;

 private:
  void add(const void* data, size_t bytes) {
    (device_.has(data) ? on_device : on_host) += static_cast<double>(bytes);
  }

  const Memory& device_;
};

bool CostModelDriver::Memory::has(const void* data) const {
  const auto* byte = static_cast<const std::byte*>(data);
  const auto next = beginnings.upper_bound(byte);
  return next != beginnings.end() && next->second <= byte;
}

Buffer CostModelDriver::allocate(size_t bytes, MemoryKind place, std::string_view purpose) {
  if (place == MemoryKind::kStaging) return Buffer(bytes, purpose);
  if (bytes > available())
    throw OutOfMemory(text("out of memory: cannot allocate ", bytes, " bytes for ", purpose));
  const size_t reserved = std::max<size_t>(bytes, 1);
  void* data =
      ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED)
    throw OutOfMemory(text("out of memory: cannot reserve addresses for ", purpose));
  auto* begin = static_cast<std::byte*>(data);
  memory_->beginnings[begin + reserved] = begin;
  memory_->taken += bytes;
  return Buffer(data, bytes, [memory = memory_, reserved](void* released, size_t size) {
    memory->beginnings.erase(static_cast<std::byte*>(released) + reserved);
    memory->taken -= size;
    ::munmap(released, reserved);
  });
}

size_t CostModelDriver::available() const {
  return static_cast<size_t>(cost_counter_.rates().memory_bytes) - memory_->taken;
}

void CostModelDriver::issue(cuda::Stream, std::unique_ptr<const cuda::Operation> operation) {
  ++calls_->launches;
  count(*operation);
}

void CostModelDriver::issue(cuda::Stream, const std::shared_ptr<const cuda::Graph>& graph) {
  ++calls_->launches;
  for (const cuda::GraphNode& node : graph->nodes())
    if (node.operation != nullptr)
      count(*node.operation);
    else
      count_copy(node.from, node.to, node.bytes);
}

void CostModelDriver::count(const cuda::Operation& operation) {
  Cost cost;
  if (const auto* counted = dynamic_cast<const CountedOperation*>(&operation))
    cost = counted->cost();
  ByteCount bytes(*memory_);
  operation.visit(bytes);
  cost.bytes = bytes.on_device;
  cost.kernel_host_bytes = bytes.on_host;
  cost_counter_.add(operation.name(), cost);
}

void CostModelDriver::copy(cuda::Stream, const void* from, void* to, size_t bytes) {
  ++calls_->launches;
  count_copy(from, to, bytes);
}

void CostModelDriver::count_copy(const void* from, const void* to, size_t bytes) {
  const auto count = static_cast<double>(bytes);
  if (!memory_->has(from)) return cost_counter_.add(kUploadKernel, {.host_bytes = count});
  if (!memory_->has(to)) return cost_counter_.add(kDownloadKernel, {.host_bytes = count});
  cost_counter_.add("copy", {.bytes = 2 * count});
}

std::shared_ptr<const cuda::StreamEvent> CostModelDriver::record(cuda::Stream) {
  return std::make_shared<const ReachedEvent>(calls_);
}

}  // namespace poseidon::bench
