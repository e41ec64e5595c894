#pragma once

#include <map>
#include <memory>

#include "core/cuda/cuda_device.h"

namespace poseidon::cuda {

/// Issues recurring GPU work. For a new key, it issues the operations one by one, because libraries
/// load code and allocate memory when they are first called. From the second issue of a key on, it
/// issues the operations as a graph. In two cases it always issues the operations of a key one by
/// one: the work has fewer operations than Settings::min_graph_operations, or CUDA refuses to make
/// the graph. It warns only of the first refusal.
class CudaGraphCapture final : public GraphCapture {
 public:
  explicit CudaGraphCapture(CudaDevice& device)
      : device_(device), compares_(device.settings().graphs == Graphs::kCompared) {}

  void issue(const GraphKey& key, const std::function<void()>& work) override;
  bool records() const override { return true; }

 private:
  struct CapturedWork {
    std::shared_ptr<const Graph> graph;  ///< null: issued only once so far, or one by one
    bool one_by_one = false;             ///< never a graph: too few operations, or refused by CUDA
    std::vector<GraphNode> nodes;        ///< as issued the first time; empty unless compares_
  };

  void issue_first(const GraphKey& key, const std::function<void()>& work);
  void make_graph(CapturedWork& known, const GraphKey& key, const std::function<void()>& work);
  void warn(const GraphKey& key, const std::string& reason);

  CudaDevice& device_;
  const bool compares_;
  bool has_warned_ = false;
  std::map<GraphKey, CapturedWork> known_;
};

}  // namespace poseidon::cuda
