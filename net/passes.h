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

/// The forward and backward passes of a program. Calls run in groups. The callbacks (Gate,
/// OnGradient, BetweenLayers) run between the groups. On a device that records work (GraphCapture
/// in core/device.h), a group extends to the next Gate or OnGradient. Without a trace, one layer
/// with few parameters joins the group of its neighbor. On other devices, a group is one call. The
/// caller can request larger groups in the backward pass. Each group of a training pass is one span
/// of the trace. The span has the name of the first call in the forward pass, and of the last call
/// in the backward pass. If the last call of a backward group announces factors, a second span
/// covers its input gradient. Only the compute thread uses this class.
class Passes {
 public:
  /// `device` and `program` must outlive this object.
  Passes(Device& device, Program& program);

  /// The step parameters of `step` must be in device memory (Net::on_device). The callbacks may be
  /// null.
  void forward(const layers::StepContext& step, const Gate& gate);
  /// See Net::backward.
  void backward(const layers::StepContext& step, const OnGradient& on_gradient,
                const BetweenLayers& between_layers, int64_t gradients_per_group);

  void set_trace(TraceRecorder* trace) { trace_ = trace; }

 private:
  /// Consecutive calls, in the order of the pass.
  using Group = std::span<Call* const>;

  size_t forward_group(Group left, bool gated) const;
  size_t backward_group(Group left, bool announced, int64_t gradients) const;
  void issue_backward(const layers::StepContext& step, Group group);
  void issue_factors_first(const layers::StepContext& step, Group group,
                           const OnGradient& on_gradient);
  void issue_backward_of(const layers::StepContext& step, Call& call);
  void issue(std::string_view what, const layers::StepContext& step, Group group,
             const std::function<void()>& work);

  layers::LayerFactory& factory_;
  const std::unique_ptr<GraphCapture> graph_capture_;
  std::vector<Call*> forward_, backward_;
  TraceRecorder* trace_ = nullptr;
};

}  // namespace poseidon::net
