#include "trainer/step/summed_layer.h"

namespace poseidon::trainer {

namespace {

/// Whether the net's own memory is in the order, and free for the time, of a sum.
bool is_direct(net::Net& net, const comm::Plan& plan, const net::Parameter* parameter) {
  return plan.staleness == 0 && net.device().shares_memory() &&
         (parameter == nullptr || net.values().canonical_is_packed(*parameter));
}

}  // namespace

SummedLayer::SummedLayer(net::Net& net, layers::Updater& updater, const comm::Plan& plan,
                         uint32_t index, const OwnShards& own)
    : net_(net), own_(own), steps_(comm::steps_in_flight(plan)) {
  for (const comm::TensorTraffic& planned : plan.layers[index].traffic.tensors) {
    tensors_.push_back(make_tensor(planned, plan, updater));
  }
}

SummedLayer::Tensor SummedLayer::make_tensor(const comm::TensorTraffic& planned,
                                             const comm::Plan& plan,
                                             layers::Updater& updater) const {
  Tensor tensor{.parameter = find_named(net_.parameters(), planned.name),
                .statistic = find_named(net_.parameters().statistics(), planned.name),
                .trees = {},
                .canonical = {},
                .parts = {}};
  tensor.direct = is_direct(net_, plan, tensor.parameter);
  const auto bytes = static_cast<size_t>(planned.elements) * sizeof(float);
  const size_t steps = comm::steps_in_flight(plan);
  if (!tensor.direct) tensor.canonical = staging_memory(steps, bytes);
  for (const comm::Part& part : own_.parts) {
    tensor.trees.emplace_back(net_.device(), updater, tensor.values().size(), part.count);
    if (own_.parts.size() > 1) tensor.parts.push_back(staging_memory(steps, bytes));
  }
  return tensor;
}

std::vector<Buffer> SummedLayer::staging_memory(size_t steps, size_t bytes) const {
  std::vector<Buffer> memory;
  for (size_t step = 0; step < steps; ++step)
    memory.push_back(net_.device().allocate(bytes, Place::kStaging, "sums"));
  return memory;
}

size_t SummedLayer::bytes(net::Net& net, const comm::Plan& plan, uint32_t index,
                          const std::vector<comm::Part>& parts) {
  const size_t steps = comm::steps_in_flight(plan);
  size_t bytes = 0;
  for (const comm::TensorTraffic& tensor : plan.layers[index].traffic.tensors) {
    const net::Parameter* parameter = find_named(net.parameters(), tensor.name);
    const auto elements = static_cast<size_t>(tensor.elements);
    const size_t packed =
        parameter != nullptr ? net.parameters().packed_count(*parameter) : elements;
    const size_t copies = (is_direct(net, plan, parameter) ? 0 : steps) +
                          (parts.size() == 1 ? 0 : parts.size() * steps);
    bytes += copies * elements * sizeof(float);
    for (const comm::Part& part : parts) bytes += ShardTree::bytes(packed, part.count);
  }
  return bytes;
}

/// Adds one shard's tensors to their part of the tree.
std::vector<comm::Contribution> SummedLayer::contribute(uint64_t step, int64_t shard, What what) {
  std::vector<comm::Contribution> complete;
  const size_t index = own_.part_of(shard);
  const comm::Part part = own_.parts[index];
  const int64_t within = int64_t{own_.number_of(shard)} - part.first;
  for (uint32_t t = 0; t < tensors_.size(); ++t) {
    Tensor& tensor = tensors_[t];
    if ((tensor.statistic != nullptr) != (what == What::kStatistics)) continue;
    if (part.count > 1) tensor.trees[index].add(within, tensor.values());
    if (within + 1 == part.count)
      complete.push_back(
          {.step = step, .tensor = t, .part = part, .values = finished_part(tensor, index, step)});
  }
  return complete;
}

/// The sum of a part in canonical order, where it may lie until the layer has arrived.
std::span<const float> SummedLayer::finished_part(Tensor& tensor, size_t part, uint64_t step) {
  const bool only_part = own_.parts.size() == 1;
  if (only_part && tensor.direct) return tensor.values();
  std::vector<Buffer>& of_steps = only_part ? tensor.canonical : tensor.parts[part];
  const std::span<float> kept = of_steps[step % of_steps.size()].as<float>();
  copy_canonical(tensor, kept);
  return kept;
}

void SummedLayer::copy_canonical(const Tensor& tensor, std::span<float> to) const {
  if (tensor.statistic != nullptr)
    net_.device().copy(tensor.statistic->contribution, to);
  else
    net_.values().canonical_gradient(*tensor.parameter, to);
}

void SummedLayer::give(uint64_t step, const layers::GradientSink* sink) {
  for (uint32_t t = 0; t < tensors_.size(); ++t) {
    const Tensor& tensor = tensors_[t];
    const std::span<float> of_step = sum(t, step);
    if (tensor.statistic == nullptr && sink != nullptr)
      net_.give_gradient(*tensor.parameter, of_step, *sink);
    else if (tensor.statistic == nullptr && !tensor.direct)
      net_.values().gradient_from_canonical(*tensor.parameter, of_step);
    else if (!tensor.direct)
      net_.device().copy(of_step, tensor.statistic->contribution);
  }
}

std::span<float> SummedLayer::sum(uint32_t tensor, uint64_t step) {
  const Tensor& of = tensors_[tensor];
  return of.direct ? of.values() : of.canonical[step % of.canonical.size()].as<float>();
}

}  // namespace poseidon::trainer
