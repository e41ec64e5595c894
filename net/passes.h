#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/trace.h"
#include "layers/layer.h"
#include "net/callbacks.h"

namespace poseidon::net {

class Program;
struct Call;

/// The forward and backward passes of a program. Calls run in order, in groups between the
/// callbacks. A device that records work (core/device.h: GraphCapture) gets the largest possible
/// groups; other devices get one call in each group. A group is one span of the trace, named after
/// its first call in forward and its last call in backward. Used by the compute thread.
class Passes {
 public:
  /// Both must outlive this object.
  Passes(Device& device, Program& program);

  /// `step` has its step parameters in device memory. The callbacks may be null.
  void forward(const layers::StepContext& step, const Gate& gate);
  void backward(const layers::StepContext& step, const OnGradient& on_gradient,
                const BetweenLayers& between_layers);

  void set_trace(TraceRecorder* trace) { trace_ = trace; }

 private:
  /// Consecutive calls, in the order of the pass.
  using Group = std::span<Call* const>;

  size_t forward_group(Group left, bool gated) const;
  size_t backward_group(Group left, bool announced) const;
  void issue_backward(const layers::StepContext& step, Group group, const OnGradient& on_gradient);
  void issue_backward_of(const layers::StepContext& step, Call& call);
  void issue(std::string_view what, const layers::StepContext& step, Group group,
             const std::function<void()>& work);

  layers::LayerFactory& factory_;
  const std::unique_ptr<GraphCapture> graph_capture_;
  std::vector<Call*> forward_, backward_;
  TraceRecorder* trace_ = nullptr;
};

}  // namespace poseidon::net
