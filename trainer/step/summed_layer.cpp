#include "trainer/step/summed_layer.h"

namespace poseidon::trainer {

namespace {

/// True if the net's own memory can hold the contribution and the sum: same element order, on the
/// host, unused while the sum is in flight.
bool is_canonical(net::Net& net, const comm::Plan& plan, const net::Parameter* parameter) {
  return plan.staleness == 0 && net.device().shares_memory() &&
         (parameter == nullptr || net.values().canonical_is_packed(*parameter));
}

/// Memory of a tensor's contribution and sum.
struct MemoryUse {
  /// Whether the net's own memory holds the contribution (gives_own) and the sum (takes_own).
  bool gives_own, takes_own;
  /// Whether the sums and the contributions need separate memory, for each step in flight.
  bool has_sums, has_parts;
};

MemoryUse memory_use(net::Net& net, const comm::Plan& plan, const net::Parameter* parameter,
                     const OwnShards& own) {
  const bool canonical = is_canonical(net, plan, parameter), one_part = own.parts.size() == 1;
  MemoryUse use{.gives_own = canonical && one_part,
                .takes_own = canonical && own.is_only,
                .has_sums = false,
                .has_parts = false};
  use.has_sums = own.is_first && !use.takes_own;
  // The only contribution of a worker's only device may share the memory of the sum.
  use.has_parts = !use.gives_own && !(one_part && own.is_only);
  return use;
}

}  // namespace

SummedLayer::SummedLayer(net::Net& net, layers::Updater& updater, const comm::Plan& plan,
                         uint32_t index, const OwnShards& own, WorkerLayer* first)
    : net_(net), index_(index), own_(own), first_(first), steps_(comm::steps_in_flight(plan)) {
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
                .sums = {},
                .parts = {}};
  const MemoryUse use = memory_use(net_, plan, tensor.parameter, own_);
  tensor.gives_own = use.gives_own;
  tensor.takes_own = use.takes_own;
  const auto bytes = static_cast<size_t>(planned.elements) * sizeof(float);
  const size_t steps = comm::steps_in_flight(plan);
  if (use.has_sums) tensor.sums = staging_memory(steps, bytes);
  for (const comm::Part& part : own_.parts) {
    tensor.trees.emplace_back(net_.device(), updater, tensor.values().size(), part.count);
    if (use.has_parts) tensor.parts.push_back(staging_memory(steps, bytes));
  }
  return tensor;
}

std::vector<Buffer> SummedLayer::staging_memory(size_t steps, size_t bytes) const {
  std::vector<Buffer> memory;
  for (size_t step = 0; step < steps; ++step)
    memory.push_back(net_.device().allocate(bytes, MemoryKind::kStaging, "sums"));
  return memory;
}

size_t SummedLayer::bytes(net::Net& net, const comm::Plan& plan, uint32_t index,
                          const OwnShards& own) {
  const size_t steps = comm::steps_in_flight(plan);
  size_t bytes = 0;
  for (const comm::TensorTraffic& tensor : plan.layers[index].traffic.tensors) {
    const net::Parameter* parameter = find_named(net.parameters(), tensor.name);
    const auto elements = static_cast<size_t>(tensor.elements);
    const size_t packed =
        parameter != nullptr ? net.parameters().packed_count(*parameter) : elements;
    const MemoryUse use = memory_use(net, plan, parameter, own);
    const size_t copies = (use.has_sums ? 1 : 0) + (use.has_parts ? own.parts.size() : 0);
    bytes += copies * steps * elements * sizeof(float);
    for (const comm::Part& part : own.parts) bytes += ShardTree::bytes(packed, part.count);
  }
  return bytes;
}

/// Adds one shard's tensors of the kind `what` to the trees of the shard's range. After the last
/// shard of the range, returns the sums over the range; otherwise nothing.
std::vector<DeviceContribution> SummedLayer::contribute(uint64_t step, int64_t shard, What what) {
  std::vector<DeviceContribution> complete;
  const size_t index = own_.part_of(shard);
  const comm::Part part = own_.parts[index];
  const int64_t within = int64_t{own_.number_of(shard)} - part.first;
  for (uint32_t t = 0; t < tensors_.size(); ++t) {
    Tensor& tensor = tensors_[t];
    if ((tensor.statistic != nullptr) != (what == What::kStatistics)) continue;
    if (part.count > 1) tensor.trees[index].add(within, tensor.values());
    if (within + 1 == part.count)
      complete.push_back({.layer = index_,
                          .tensor = t,
                          .step = step,
                          .part = part,
                          .values = finished_part(tensor, index, step)});
  }
  return complete;
}

/// Returns this device's sum of a shard range, in canonical order. This device does not write the
/// memory again until the layer's sums have arrived.
std::span<float> SummedLayer::finished_part(Tensor& tensor, size_t part, uint64_t step) {
  if (tensor.gives_own) return tensor.values();
  std::vector<Buffer>& of_steps = tensor.parts.empty() ? tensor.sums : tensor.parts[part];
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

void SummedLayer::deliver(uint64_t step, const layers::GradientSink* sink) {
  for (uint32_t t = 0; t < tensors_.size(); ++t) {
    const Tensor& tensor = tensors_[t];
    const std::span<float> of_step = sum(t, step);
    if (tensor.statistic == nullptr && sink != nullptr)
      net_.pack_gradient(*tensor.parameter, of_step, *sink);
    else if (tensor.statistic == nullptr && !tensor.takes_own)
      net_.values().gradient_from_canonical(*tensor.parameter, of_step);
    else if (!tensor.takes_own)
      net_.device().copy(of_step, tensor.statistic->contribution);
  }
}

std::span<float> SummedLayer::sum(uint32_t tensor, uint64_t step) {
  if (first_ != nullptr) return first_->sum(tensor, step);
  const Tensor& of = tensors_[tensor];
  return of.takes_own ? of.values() : of.sums[step % of.sums.size()].as<float>();
}

}  // namespace poseidon::trainer
