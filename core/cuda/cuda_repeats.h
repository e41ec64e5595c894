#pragma once

#include <map>
#include <memory>

#include "core/cuda/cuda_device.h"

namespace poseidon::cuda {

/// Work of a GPU that comes again: the first time it is issued piece by piece, as libraries load
/// code and take memory when they are first called, from then on as a graph.
class CudaRepeats final : public Repeats {
 public:
  explicit CudaRepeats(CudaDevice& device)
      : device_(device), compares_(device.settings().graphs == Graphs::kCompared) {}

  void issue(const RepeatKey& key, const std::function<void()>& work) override;
  bool records() const override { return true; }

 private:
  struct Known {
    std::shared_ptr<const Graph> graph;  ///< null: it was issued once
    std::vector<GraphNode> nodes;        ///< what was issued then, to compare with
  };

  void issue_first(const RepeatKey& key, const std::function<void()>& work);

  CudaDevice& device_;
  const bool compares_;
  std::map<RepeatKey, Known> known_;
};

}  // namespace poseidon::cuda
