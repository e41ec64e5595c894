#include "net/passes.h"

#include <bit>
#include <ranges>

#include "net/program.h"

namespace poseidon::net {

namespace {

int64_t address(const void* memory) {
  return static_cast<int64_t>(std::bit_cast<intptr_t>(memory));
}

/// The graph key of a group of calls: everything that the calls depend on, except the content of
/// device memory. The key contains addresses, because parameters may have two versions, and factors
/// several buffers.
GraphKey key_of(std::string_view what, const layers::StepContext& step,
                std::span<Call* const> group) {
  GraphKey key{what,
               {address(group.front()), std::ssize(group), static_cast<int64_t>(step.phase),
                std::bit_cast<int32_t>(step.loss_scale)}};
  for (const Call* call : group) {
    for (const auto& parameter : call->memory.parameters)
      key.numbers.push_back(address(parameter.value));
    for (const auto& statistic : call->memory.statistics)
      key.numbers.push_back(address(statistic.value));
    if (call->writes_factors)
      key.numbers.insert(key.numbers.end(),
                         {address(call->factors.deltas), address(call->factors.activations)});
  }
  return key;
}

}  // namespace

Passes::Passes(Device& device, Program& program)
    : factory_(program.factory()), graph_capture_(device.make_graph_capture()) {
  for (Call& call : program.calls()) forward_.push_back(&call);
  for (Call* call : std::views::reverse(forward_))
    if (call->runs_backward) backward_.push_back(call);
}

void Passes::issue(std::string_view what, const layers::StepContext& step, Group group,
                   const std::function<void()>& work) {
  if (!graph_capture_->records()) return work();
  graph_capture_->issue(key_of(what, step, group), work);
}

// ---- forward

/// The number of calls in the next group; 1 unless the device records work. A recorded group ends
/// before the next call with a gate. If `gated` is false, or no such call follows, the group
/// extends to the end of the pass.
size_t Passes::forward_group(Group left, bool gated) const {
  if (!graph_capture_->records()) return 1;
  size_t size = 1;
  while (size < left.size() && !(gated && left[size]->gate >= 0)) ++size;
  return size;
}

void Passes::forward(const layers::StepContext& step, const Gate& gate) {
  TraceRecorder* trace = step.phase == layers::Phase::kTrain ? trace_ : nullptr;
  for (Group left = forward_; !left.empty();) {
    const Group group = left.first(forward_group(left, gate != nullptr));
    left = left.subspan(group.size());
    const Call& first = *group.front();
    if (gate && first.gate >= 0) gate(first.gate);
    const TraceScope span(trace, first.labels.forward);  // covers the complete group
    issue("forward", step, group, [&] {
      for (Call* call : group) call->layer->forward(step, call->memory);
    });
  }
}

// ---- backward

/// The number of calls in the next group. If `announced` is true, the group ends with the call
/// after which the gradients of `gradients` more layers are final (Call::announces), so that
/// OnGradient can run. If `announced` is false (there is no OnGradient), or too few such calls
/// follow, the group extends to the end of the pass. On a device that does not record work, a group
/// with one gradient is divided into single calls.
size_t Passes::backward_group(Group left, bool announced, int64_t gradients) const {
  if (!graph_capture_->records() && gradients == 1) return 1;
  size_t size = 0;
  while (size < left.size() && !(announced && gradients == 0))
    if (left[size++]->announces >= 0) --gradients;
  return size;
}

void Passes::backward(const layers::StepContext& step, const OnGradient& on_gradient,
                      const BetweenLayers& between_layers, int64_t gradients_per_group) {
  for (Group left = backward_; !left.empty();) {
    const Group group =
        left.first(backward_group(left, on_gradient != nullptr, gradients_per_group));
    left = left.subspan(group.size());
    const Call& last = *group.back();
    if (on_gradient && last.announces >= 0 && last.writes_factors && gradients_per_group == 1) {
      issue_factors_first(step, group, on_gradient);
    } else {
      issue_backward(step, group);
      for (const Call* call : group)
        if (on_gradient && call->announces >= 0) on_gradient(call->announces);
    }
    if (between_layers) between_layers();
  }
}

void Passes::issue_backward_of(const layers::StepContext& step, Call& call) {
  if (call.writes_factors) call.layer->write_factors(call.memory, call.factors);
  call.layer->backward(step, call.memory);
  for (const Call::Added& added : call.added) factory_.add(added.gradient, added.to);
}

void Passes::issue_backward(const layers::StepContext& step, Group group) {
  const TraceScope span(trace_, group.back()->labels.backward);
  issue("backward", step, group, [&] {
    for (Call* call : group) issue_backward_of(step, *call);
  });
}

/// Issues a group whose last call announces factors. Announces them before the input gradient, so
/// that the trainer sends them while the device computes the input gradient.
void Passes::issue_factors_first(const layers::StepContext& step, Group group,
                                 const OnGradient& on_gradient) {
  Call& last = *group.back();
  {
    const TraceScope span(trace_, last.labels.backward);
    issue("factors", step, group, [&] {
      for (Call* call : group.first(group.size() - 1)) issue_backward_of(step, *call);
      last.layer->write_factors(last.memory, last.factors);
    });
  }
  on_gradient(last.announces);
  const TraceScope span(trace_, last.labels.backward);
  issue("behind factors", step, group.last(1), [&] { last.layer->backward(step, last.memory); });
}

}  // namespace poseidon::net
