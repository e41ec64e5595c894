#pragma once

#include <map>
#include <memory>

#include "bench/gpu/tally.h"
#include "core/cuda/driver.h"

namespace poseidon::bench {

/// What a copy from the host's memory is called.
inline constexpr const char* kUploadKernel = "copy to the GPU";

/// An operation that knows what it asks for beyond memory: a product.
class CountedOperation : public cuda::Operation {
 public:
  /// But for bytes, which visit() tells.
  virtual Demand demand() const = 0;
};

/// A GPU that does nothing, and counts what it is asked to do. Its memory is addresses only, which
/// nobody can read or write.
class CountingDriver final : public cuda::Driver {
 public:
  /// `tally` must outlive it.
  explicit CountingDriver(Tally& tally) : tally_(tally), memory_(std::make_shared<Memory>()) {}

  Buffer allocate(size_t bytes, Place place, std::string_view purpose) override;
  size_t available() const override;
  cuda::Stream make_stream(cuda::Urgency) override { return static_cast<cuda::Stream>(streams_++); }
  void issue(cuda::Stream stream, std::unique_ptr<const cuda::Operation> operation) override;
  void copy(cuda::Stream stream, const void* from, void* to, size_t bytes) override;
  std::shared_ptr<const cuda::Graph> make_graph(cuda::Stream,
                                                std::vector<cuda::GraphNode> nodes) override {
    return std::make_shared<const cuda::Graph>(std::move(nodes));
  }
  void issue(cuda::Stream stream, const std::shared_ptr<const cuda::Graph>& graph) override;
  std::shared_ptr<const cuda::Mark> record(cuda::Stream stream) override;
  std::shared_ptr<const Moment> moment(cuda::Stream) override { return nullptr; }
  void wait(cuda::Stream, const std::shared_ptr<const cuda::Mark>&) override {}

 private:
  void count(const cuda::Operation& operation);

  /// What is taken of the device's memory, by where it ends.
  struct Memory {
    std::map<const std::byte*, const std::byte*> beginnings;
    size_t taken = 0;
    bool has(const void* data) const;
  };

  Tally& tally_;
  std::shared_ptr<Memory> memory_;  ///< buffers may outlive the driver
  uint32_t streams_ = 0;
};

}  // namespace poseidon::bench
