#include "trainer/step/factored_layer.h"

#include "core/error.h"

namespace poseidon::trainer {

namespace {

int node_of(net::Net& net, const comm::Plan& plan, uint32_t index) {
  return layer_of_tensor(net, plan.layers[index].traffic.tensors.at(0).name);
}

layers::FactorShape shape_of(net::Net& net, const comm::Plan& plan, uint32_t index) {
  const auto shape = net.factor_shape(node_of(net, plan, index));
  check(shape.has_value(), "the net provides the factors that its plan requires");
  return *shape;
}

}  // namespace

FactoredLayer::FactoredLayer(net::Net& net, const comm::Plan& plan, uint32_t index,
                             const OwnShards& own, WorkerLayer* first)
    : net_(net),
      index_(index),
      own_(own),
      first_(first == nullptr ? this : static_cast<const FactoredLayer*>(first)),
      node_(node_of(net, plan, index)),
      shape_(shape_of(net, plan, index)),
      samples_(plan.global_batch) {
  Device& device = net.device();
  if (!device.shares_memory())
    written_.emplace(device, shape_, net.input_shape().samples(), MemoryKind::kDevice);
  if (first != nullptr) return;
  for (size_t step = 0; step < comm::steps_of_factors(plan); ++step)
    steps_.emplace_back(device, shape_, samples_, MemoryKind::kStaging);
}

/// Uses the factor shape of the plan, because a net without memory has no factors yet.
size_t FactoredLayer::bytes(net::Net& net, const comm::Plan& plan, uint32_t index,
                            const OwnShards& own) {
  const comm::FactorSizes& sizes = *plan.layers[index].traffic.factors;
  const layers::FactorShape shape{.deltas = sizes.deltas, .activations = sizes.activations};
  const size_t written =
      net.device().shares_memory() ? 0 : StackedFactors::bytes(shape, net.input_shape().samples());
  if (!own.is_first) return written;
  return written + comm::steps_of_factors(plan) * StackedFactors::bytes(shape, plan.global_batch);
}

const StackedFactors& FactoredLayer::of_step(uint64_t step) const {
  return first_->steps_[step % first_->steps_.size()];
}

int64_t FactoredLayer::slot(uint64_t step) const {
  return static_cast<int64_t>(step % first_->steps_.size());
}

void FactoredLayer::begin_backward(uint64_t step, int64_t shard) {
  const int64_t row = own_.first_row[static_cast<size_t>(shard)];
  net_.set_factor_memory(node_, written_ ? written_->all() : of_step(step).from(row));
}

std::vector<DeviceContribution> FactoredLayer::contribute(uint64_t step, int64_t shard, What what) {
  if (what == What::kStatistics) return {};
  if (written_)
    written_->copy_to(of_step(step), own_.first_row[static_cast<size_t>(shard)], net_.device());
  return {{.layer = index_, .step = step, .part = {own_.number_of(shard), 1}}};
}

void FactoredLayer::deliver(uint64_t step, const layers::GradientSink* sink) {
  net_.rebuild(node_, of_step(step).all(), sink);
}

std::span<float> FactoredLayer::factors(uint32_t which, uint64_t step) {
  const layers::FactorMemory memory = of_step(step).all();
  if (which == comm::kDeltas) return {memory.deltas, static_cast<size_t>(samples_ * shape_.deltas)};
  return {memory.activations, static_cast<size_t>(samples_ * shape_.activations)};
}

}  // namespace poseidon::trainer
