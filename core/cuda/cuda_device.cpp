#include "core/cuda/cuda_device.h"

#include <algorithm>

#include "core/cuda/cuda_graph_capture.h"
#include "core/cuda/wait_eliding_driver.h"
#include "core/error.h"

namespace poseidon::cuda {

namespace {

/// Restores the previous target of issued work at the end of the scope, also after an exception.
template <class Target>
class ScopedRestore {
 public:
  ScopedRestore(Target& current, Target before) : current_(current), before_(before) {}
  ~ScopedRestore() { current_ = before_; }
  ScopedRestore(const ScopedRestore&) = delete;
  ScopedRestore& operator=(const ScopedRestore&) = delete;

 private:
  Target& current_;
  const Target before_;
};

}  // namespace

CudaDevice::CudaDevice(std::unique_ptr<Driver> driver, const Settings& settings)
    : driver_(std::make_unique<WaitElidingDriver>(std::move(driver))),
      settings_(settings),
      compute_(driver_->make_stream(StreamPriority::kNormal)),
      streams_{driver_->make_stream(StreamPriority::kNormal),
               driver_->make_stream(StreamPriority::kHigh),
               driver_->make_stream(StreamPriority::kHigh)},
      current_(compute_),
      uploads_(*driver_) {}

CudaDevice::~CudaDevice() {
  driver_->record(compute_)->wait();
  for (const Stream stream : streams_) driver_->record(stream)->wait();
}

Event CudaDevice::issue_on_stream(DeviceStream stream, const Event& after,
                                  const std::function<void()>& issue) {
  check(current_ == compute_, "additional streams start from the compute stream only");
  current_ = streams_[static_cast<size_t>(stream)];
  const ScopedRestore<Stream> back(current_, compute_);
  const int64_t issued = issued_;
  await(after);
  issue();
  return issued_ == issued ? after : record();
}

void CudaDevice::issue(std::unique_ptr<const Operation> operation) {
  if (nodes_ != nullptr) {
    nodes_->push_back({.operation = std::move(operation)});
    return;
  }
  ++issued_;
  driver_->issue(current_, std::move(operation));
}

void CudaDevice::issue(const std::shared_ptr<const Graph>& graph) {
  ++issued_;
  driver_->issue(current_, graph);
}

std::vector<GraphNode> CudaDevice::nodes_of(const std::function<void()>& work) {
  expect_no_nodes();
  std::vector<GraphNode> nodes;
  nodes_ = &nodes;
  const ScopedRestore<std::vector<GraphNode>*> back(nodes_, nullptr);
  work();
  return nodes;
}

/// Throws LogicError within nodes_of(). For functions whose work cannot be part of a graph.
void CudaDevice::expect_no_nodes() const {
  check(nodes_ == nullptr, "a captured graph consists of operations and copies only");
}

std::unique_ptr<GraphCapture> CudaDevice::make_graph_capture() {
  if (settings_.graphs == Graphs::kNone) return Device::make_graph_capture();
  return std::make_unique<CudaGraphCapture>(*this);
}

Event CudaDevice::record() {
  expect_no_nodes();
  return Event(driver_->record(current_));
}

void CudaDevice::await(const Event& event) {
  expect_no_nodes();
  if (event.point() != nullptr)
    driver_->wait(current_, std::static_pointer_cast<const StreamEvent>(event.point()));
}

void CudaDevice::copy(const void* from, void* to, size_t bytes) {
  if (bytes == 0 || from == to) return;
  if (nodes_ != nullptr) {
    nodes_->push_back({.operation = nullptr, .from = from, .to = to, .bytes = bytes});
    return;
  }
  ++issued_;
  driver_->copy(current_, from, to, bytes);
}

void CudaDevice::read(std::span<const std::byte> from, std::span<std::byte> host) {
  expect_no_nodes();
  constexpr size_t kPieceBytes = size_t{4} << 20;
  if (read_buffer_.bytes() == 0)
    read_buffer_ = driver_->allocate(kPieceBytes, MemoryKind::kStaging, "staging copies");
  for (size_t done = 0; done < from.size();) {
    const size_t bytes = std::min(kPieceBytes, from.size() - done);
    copy(from.data() + done, read_buffer_.data(), bytes);
    driver_->record(current_)->wait();
    std::copy_n(static_cast<const std::byte*>(read_buffer_.data()), bytes, host.data() + done);
    done += bytes;
  }
}

void CudaDevice::write(std::span<const std::byte> host, std::span<std::byte> to) {
  expect_no_nodes();
  ++issued_;
  uploads_.write(current_, host, to.data());
}

}  // namespace poseidon::cuda
