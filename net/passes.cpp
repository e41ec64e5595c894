#include "net/passes.h"

#include <bit>
#include <ranges>
#include <utility>

#include "net/program.h"

namespace poseidon::net {

namespace {

int64_t address(const void* memory) {
  return static_cast<int64_t>(std::bit_cast<intptr_t>(memory));
}

/// Whether a layer has few parameters, such as a batch norm. The computation and the sums of such a
/// layer take little time, so one such layer may join the group of its neighbor.
bool is_small(const Call& call) {
  constexpr int64_t kFewElements = 8192;
  int64_t elements = 0;
  for (const layers::ParameterSpec& spec : call.definition->parameters())
    elements += spec.shape.count();
  return elements <= kFewElements;
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
/// before the next call with a gate. If this call is small, and there is no trace, the group
/// includes it and ends before the gate after it. If `gated` is false, or no such call follows, the
/// group extends to the end of the pass. With a trace, each gate begins a group, because each gate
/// has a span.
size_t Passes::forward_group(Group left, bool gated) const {
  if (!graph_capture_->records()) return 1;
  bool may_join = trace_ == nullptr;
  for (size_t size = 1; size < left.size(); ++size) {
    if (!gated || left[size]->gate < 0) continue;
    if (!may_join || !is_small(*left[size])) return size;
    may_join = false;
  }
  return left.size();
}

void Passes::forward(const layers::StepContext& step, const Gate& gate) {
  TraceRecorder* trace = step.phase == layers::Phase::kTrain ? trace_ : nullptr;
  for (Group left = forward_; !left.empty();) {
    const Group group = left.first(forward_group(left, gate != nullptr));
    left = left.subspan(group.size());
    for (const Call* call : group)
      if (gate && call->gate >= 0) gate(call->gate);
    const TraceScope span(trace, group.front()->labels.forward);  // covers the complete group
    issue("forward", step, group, [&] {
      for (Call* call : group) call->layer->forward(step, call->memory);
    });
  }
}

// ---- backward

/// The number of calls in the next group. A call announces a layer if the layer's gradients are
/// final after this call (Call::announces). If `announced` is true (there is an OnGradient), the
/// group ends with the call that announces its `gradients`-th layer. If `gradients` is 1, and there
/// is no trace, this count omits the first layer if it is small. If `announced` is false, or too
/// few such calls follow, the group extends to the end of the pass. If `gradients` is 1 on a device
/// that does not record work, the group is one call.
size_t Passes::backward_group(Group left, bool announced, int64_t gradients) const {
  if (!graph_capture_->records() && gradients == 1) return 1;
  bool may_join = trace_ == nullptr && gradients == 1;
  for (size_t size = 0; size < left.size(); ++size) {
    if (!announced || left[size]->announces < 0) continue;
    const bool joins = std::exchange(may_join, false) && is_small(*left[size]);
    if (!joins && --gradients == 0) return size + 1;
  }
  return left.size();
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

/// Issues a group whose last call announces factors. Announces the factors before it issues the
/// input gradient. So the trainer sends the factors while the device computes the input gradient.
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
  for (const Call* call : group)
    if (call->announces >= 0) on_gradient(call->announces);
  const TraceScope span(trace_, last.labels.backward);
  issue("behind factors", step, group.last(1), [&] { last.layer->backward(step, last.memory); });
}

}  // namespace poseidon::net
