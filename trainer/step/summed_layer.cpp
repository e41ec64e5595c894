#include "trainer/step/summed_layer.h"

#include <numeric>

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

/// `planned` is the tensor in the plan. `parameter` is null for a statistic.
MemoryUse memory_use(net::Net& net, const comm::Plan& plan, const comm::TensorTraffic& planned,
                     const net::Parameter* parameter, const OwnShards& own) {
  const bool canonical = is_canonical(net, plan, parameter);
  // A contribution that is rounded at once needs its memory no longer.
  const bool at_once = net.device().shares_memory() && comm::rounds_shards(plan.wire, planned);
  const bool one_part = own.parts.size() == 1 || at_once;
  MemoryUse use{.gives_own = canonical && one_part,
                .takes_own = canonical && own.is_only,
                .has_sums = false,
                .has_parts = false};
  use.has_sums = own.is_first && !use.takes_own;
  // The only contribution of a worker's only device may share the memory of the sum.
  use.has_parts = !use.gives_own && !(one_part && own.is_only);
  return use;
}

/// The sizes of a layer's separate memory: floats by tensor; 0: none.
struct SeparateFloats {
  std::vector<size_t> sums;       ///< of one step
  std::vector<size_t> parts;      ///< of one step and one shard range
  std::vector<size_t> converted;  ///< device memory for the conversion to canonical order

  SeparateFloats(net::Net& net, const comm::Plan& plan, uint32_t index, const OwnShards& own) {
    for (const comm::TensorTraffic& planned : plan.layers[index].traffic.tensors) {
      const net::Parameter* parameter = find_named(net.parameters(), planned.name);
      const MemoryUse use = memory_use(net, plan, planned, parameter, own);
      const auto elements = static_cast<size_t>(planned.elements);
      const bool converts = !net.device().shares_memory() && parameter != nullptr &&
                            !net.values().canonical_is_packed(*parameter);
      sums.push_back(use.has_sums ? elements : 0);
      parts.push_back(use.has_parts ? elements : 0);
      converted.push_back(converts ? elements : 0);
    }
  }
};

}  // namespace

SummedLayer::SummedLayer(net::Net& net, layers::Updater& updater, const comm::Plan& plan,
                         uint32_t index, const OwnShards& own, WorkerLayer* first)
    : net_(net), index_(index), own_(own), first_(first), steps_(comm::steps_in_flight(plan)) {
  const SeparateFloats floats(net, plan, index, own);
  for (const comm::TensorTraffic& planned : plan.layers[index].traffic.tensors)
    tensors_.push_back(make_tensor(planned, plan, updater, floats.converted[tensors_.size()]));
  sums_ = TensorSlots(net.device(), floats.sums, steps_);
  for (size_t part = 0; part < own.parts.size(); ++part)
    parts_.emplace_back(net.device(), floats.parts, steps_);
}

SummedLayer::Tensor SummedLayer::make_tensor(const comm::TensorTraffic& planned,
                                             const comm::Plan& plan, layers::Updater& updater,
                                             size_t converted) const {
  Device& device = net_.device();
  Tensor tensor{.parameter = find_named(net_.parameters(), planned.name),
                .statistic = find_named(net_.parameters().statistics(), planned.name),
                .trees = {},
                .converted = {},
                .copied = {}};
  const MemoryUse use = memory_use(net_, plan, planned, tensor.parameter, own_);
  tensor.gives_own = use.gives_own;
  tensor.takes_own = use.takes_own;
  if (converted > 0)
    tensor.converted = device.allocate(converted * sizeof(float), MemoryKind::kDevice,
                                       "gradients in canonical order");
  if (!device.shares_memory())
    tensor.copied = converted > 0 ? tensor.converted.as<float>() : tensor.values();
  for (const comm::Part& part : own_.parts)
    tensor.trees.emplace_back(device, updater, tensor.values().size(), part.count);
  return tensor;
}

size_t SummedLayer::bytes(net::Net& net, const comm::Plan& plan, uint32_t index,
                          const OwnShards& own) {
  const size_t steps = comm::steps_in_flight(plan);
  const SeparateFloats floats(net, plan, index, own);
  size_t bytes = TensorSlots::bytes(floats.sums, steps) +
                 own.parts.size() * TensorSlots::bytes(floats.parts, steps) +
                 std::reduce(floats.converted.begin(), floats.converted.end()) * sizeof(float);
  for (const comm::TensorTraffic& tensor : plan.layers[index].traffic.tensors) {
    const net::Parameter* parameter = find_named(net.parameters(), tensor.name);
    const size_t packed = parameter != nullptr ? net.parameters().packed_count(*parameter)
                                               : static_cast<size_t>(tensor.elements);
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
  JoinedCopies copies(net_.device());
  for (uint32_t t = 0; t < tensors_.size(); ++t) {
    Tensor& tensor = tensors_[t];
    if ((tensor.statistic != nullptr) != (what == What::kStatistics)) continue;
    if (part.count > 1) tensor.trees[index].add(within, tensor.values());
    if (within + 1 == part.count)
      complete.push_back({.layer = index_,
                          .tensor = t,
                          .step = step,
                          .part = part,
                          .values = finished_part(t, index, step, copies)});
  }
  copies.issue();
  return complete;
}

/// Returns this device's sum of a shard range, in canonical order. This device does not write the
/// memory again until the layer's sums have arrived. If the memory is filled by a copy that may be
/// joined with others, the copy is added to `copies`.
std::span<float> SummedLayer::finished_part(uint32_t t, size_t part, uint64_t step,
                                            JoinedCopies& copies) const {
  const Tensor& tensor = tensors_[t];
  if (tensor.gives_own) return tensor.values();
  const std::span<float> kept = (parts_[part].has(t) ? parts_[part] : sums_).of(t, step);
  if (tensor.copied.empty()) {
    copy_canonical(tensor, kept);
  } else if (tensor.is_converted()) {
    net_.values().canonical_gradient(*tensor.parameter, tensor.copied);
    net_.device().copy(tensor.copied, kept);
  } else {
    copies.add(tensor.copied, kept);
  }
  return kept;
}

void SummedLayer::copy_canonical(const Tensor& tensor, std::span<float> to) const {
  if (tensor.statistic != nullptr)
    net_.device().copy(tensor.statistic->contribution, to);
  else
    net_.values().canonical_gradient(*tensor.parameter, to);
}

/// Copies the sums to device memory, unless the device shares host memory.
void SummedLayer::copy_sums(uint64_t step) {
  JoinedCopies copies(net_.device());
  for (uint32_t t = 0; t < tensors_.size(); ++t) {
    const Tensor& tensor = tensors_[t];
    if (tensor.is_converted())
      net_.device().copy(sum(t, step), tensor.copied);
    else if (!tensor.copied.empty())
      copies.add(sum(t, step), tensor.copied);
  }
  copies.issue();
}

void SummedLayer::deliver(uint64_t step, const layers::GradientSink* sink) {
  copy_sums(step);
  for (uint32_t t = 0; t < tensors_.size(); ++t) {
    const Tensor& tensor = tensors_[t];
    const std::span<float> of_step = tensor.copied.empty() ? sum(t, step) : tensor.copied;
    const bool is_own = of_step.data() == tensor.values().data();
    if (tensor.statistic != nullptr) {
      if (!is_own) net_.device().copy(of_step, tensor.statistic->contribution);
    } else if (sink == nullptr) {
      if (!is_own) net_.values().gradient_from_canonical(*tensor.parameter, of_step);
    } else if (is_own) {
      (*sink)(tensor.parameter->index, 0, of_step);
    } else {
      net_.pack_gradient(*tensor.parameter, of_step, *sink);
    }
  }
}

std::span<float> SummedLayer::sum(uint32_t tensor, uint64_t step) {
  if (first_ != nullptr) return first_->sum(tensor, step);
  const Tensor& of = tensors_[tensor];
  return of.takes_own ? of.values() : sums_.of(tensor, step);
}

}  // namespace poseidon::trainer
