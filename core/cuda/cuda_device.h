#pragma once

#include <array>
#include <memory>
#include <vector>

#include "core/cuda/driver.h"
#include "core/cuda/kernel.cuh"
#include "core/cuda/settings.h"
#include "core/cuda/upload_ring.h"
#include "core/tensor.h"

namespace poseidon::cuda {

/// A GPU as a compute device. It has one CUDA stream for computation and one for each DeviceStream.
class CudaDevice final : public Device {
 public:
  CudaDevice(std::unique_ptr<Driver> driver, const Settings& settings);
  /// Waits for all work.
  ~CudaDevice() override;

  const Settings& settings() const { return settings_; }
  /// Storage type of activations in layers that support several types.
  DataType activations() const {
    return settings_.precision == Precision::kBf16 ? DataType::kBf16 : DataType::kFp32;
  }

  Buffer allocate(size_t bytes, MemoryKind place, std::string_view purpose) override {
    return driver_->allocate(bytes, place, purpose);
  }
  size_t available() const override { return driver_->available(); }
  bool shares_memory() const override { return false; }
  using Device::copy;
  void copy(std::span<const std::byte> from, std::span<std::byte> to) override {
    copy(from.data(), to.data(), from.size());
  }
  void read(std::span<const std::byte> from, std::span<std::byte> host) override;
  void write(std::span<const std::byte> host, std::span<std::byte> to) override;
  Event record() override;
  Event issue_on_stream(DeviceStream stream, const Event& after,
                        const std::function<void()>& issue) override;
  void await(const Event& event) override;
  std::unique_ptr<GraphCapture> make_graph_capture() override;
  std::shared_ptr<const Timestamp> record_timestamp() override {
    return driver_->record_timestamp(current_);
  }
  int threads() const override { return 1; }

  /// Issues a copy in the same way as an operation (issue()). Each side may be device or staging
  /// memory. Does nothing if `from` equals `to`.
  void copy(const void* from, void* to, size_t bytes);
  /// Issues an operation to the current stream: the compute stream or, within issue_on_stream(),
  /// the stream of that call. Within nodes_of(), adds the operation to the result of nodes_of()
  /// instead.
  void issue(std::unique_ptr<const Operation> operation);
  /// The operations and copies that `work` would issue, in order. Does not issue them.
  std::vector<GraphNode> nodes_of(const std::function<void()>& work);
  /// Makes a graph for the current stream.
  std::shared_ptr<const Graph> make_graph(std::vector<GraphNode> nodes) {
    return driver_->make_graph(current_, std::move(nodes));
  }
  void issue(const std::shared_ptr<const Graph>& graph);
  /// Launches a kernel on a grid; does nothing if the grid is empty.
  template <class Kernel>
  void launch(const Kernel& kernel, const Grid& grid) {
    if (grid.blocks > 0 && grid.blocks_y > 0) issue(launch_of(kernel, grid));
  }
  /// Launches a kernel with at least `count` threads, one for each item.
  template <class Kernel>
  void launch_for(int64_t count, const Kernel& kernel) {
    launch(kernel, {.blocks = blocks_for(count, Kernel::kThreads)});
  }

 private:
  void expect_no_nodes() const;

  std::unique_ptr<Driver> driver_;
  const Settings settings_;
  const Stream compute_;
  const std::array<Stream, 3> streams_;      ///< indexed by DeviceStream
  Stream current_;                           ///< the stream that receives issued work
  int64_t issued_ = 0;                       ///< number of operations, copies and graphs so far
  std::vector<GraphNode>* nodes_ = nullptr;  ///< set only within nodes_of()
  UploadRing uploads_;
  Buffer read_buffer_;  ///< staging memory for read()
};

}  // namespace poseidon::cuda
