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

/// The passes through a program: its calls in order, forward and backward, issued in groups between
/// the callbacks. A device that records (core/device.h: Repeats) has groups as large as these
/// allow, others a call in each. A group is a span of the trace, named after its layer with
/// parameters. Used by the compute thread.
class Passes {
 public:
  /// Both must outlive it.
  Passes(Device& device, Program& program);

  /// `step` is as layers see it. The callbacks may be null.
  void forward(const layers::StepContext& step, const Gate& gate);
  void backward(const layers::StepContext& step, const OnGradient& on_gradient,
                const BetweenLayers& between_layers);

  void set_trace(TraceRecorder* trace) { trace_ = trace; }

 private:
  /// Calls, in the order of the pass.
  using Group = std::span<Call* const>;

  size_t forward_group(Group left, bool gated) const;
  size_t backward_group(Group left, bool announced) const;
  void issue_backward(const layers::StepContext& step, Group group, const OnGradient& on_gradient);
  void issue_backward_of(const layers::StepContext& step, Call& call);
  void issue(std::string_view what, const layers::StepContext& step, Group group,
             const std::function<void()>& work);

  layers::LayerFactory& factory_;
  const std::unique_ptr<Repeats> repeats_;
  std::vector<Call*> forward_, backward_;
  TraceRecorder* trace_ = nullptr;
};

}  // namespace poseidon::net
