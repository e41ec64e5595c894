#include "trainer/step/cluster_exchange.h"

#include <algorithm>

#include "comm/exchange/chunk_sum.h"
#include "core/error.h"

namespace poseidon::trainer {

namespace {

constexpr auto kLongWait = std::chrono::seconds(1);

template <class Named>
const Named* find_named(std::span<Named> all, const std::string& name) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Named& each) { return each.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

std::span<float> ClusterExchange::Tensor::memory(uint64_t step) const {
  if (!direct) return canonical[step % canonical.size()].as<float>();
  return statistic != nullptr ? statistic->contribution : parameter->gradient;
}

ClusterExchange::ClusterExchange(net::Net& net, layers::Updater& updater, const comm::Plan& plan,
                                 uint32_t rank, uint64_t first_step, Post post)
    : net_(net),
      plan_(plan),
      rank_(rank),
      first_step_(first_step),
      post_(std::move(post)),
      shards_(plan.assignment.shards_of(rank)),
      parts_(plan.assignment.parts_of(rank)),
      announced_(std::ranges::count_if(net.summed_layers(),
                                       [&](int layer) { return net.announces(layer); })),
      step_(first_step) {
  for (uint32_t shard = 0; shard < shards_.count; ++shard)
    first_row_.push_back(plan.rows_of({shards_.first + shard, 1}).first);
  for (const comm::LayerPlan& planned : plan.layers) {
    Layer layer;
    find_tensors(layer, planned.traffic, updater);
    if (const auto shape = net.factor_shape(layer.node))
      for (size_t step = 0; step < comm::steps_of_factors(plan); ++step)
        layer.factors.emplace_back(net.device(), *shape, plan.global_batch);
    layer_of_node_[layer.node] = static_cast<uint32_t>(layers_.size());
    layers_.push_back(std::move(layer));
  }
  for (const int node : net.summed_layers())
    if (!layer_of_node_.contains(node))
      throw ConfigError("the plan knows nothing of a layer that learns");
}

void ClusterExchange::find_tensors(Layer& layer, const comm::LayerTraffic& traffic,
                                   layers::Updater& updater) {
  for (const comm::TensorTraffic& planned : traffic.tensors) {
    Tensor tensor{.parameter = find_named(net_.parameters(), planned.name),
                  .statistic = find_named(net_.statistics(), planned.name),
                  .trees = {},
                  .canonical = {},
                  .parts = {}};
    if (tensor.parameter == nullptr && tensor.statistic == nullptr)
      throw ConfigError("the plan has \"" + planned.name + "\", which the network has not");
    layer.node = tensor.parameter != nullptr ? tensor.parameter->layer : tensor.statistic->layer;
    const bool by_factors = net_.factor_shape(layer.node).has_value();
    tensor.direct = Tensor::is_direct(net_, plan_, tensor.parameter);
    const auto bytes = static_cast<size_t>(planned.elements) * sizeof(float);
    const auto steps = static_cast<size_t>(plan_.staleness + 1);
    if (!by_factors) {
      for (size_t step = 0; step < steps && !tensor.direct; ++step)
        tensor.canonical.push_back(staging_memory(bytes));
      const size_t packed = tensor.parameter != nullptr ? tensor.parameter->gradient.size()
                                                        : tensor.statistic->contribution.size();
      for (const comm::Part& part : parts_) {
        tensor.trees.emplace_back(net_.device(), updater, packed, part.count);
        if (parts_.size() == 1) continue;
        std::vector<Buffer>& of_steps = tensor.parts.emplace_back();
        for (size_t step = 0; step < steps; ++step) of_steps.push_back(staging_memory(bytes));
      }
    }
    layer.tensors.push_back(std::move(tensor));
  }
}

Buffer ClusterExchange::staging_memory(size_t bytes) const {
  return net_.device().allocate(bytes, Place::kStaging, "sums");
}

size_t ClusterExchange::bytes(net::Net& net, const comm::Plan& plan, uint32_t rank) {
  const std::vector<comm::Part> parts = plan.assignment.parts_of(rank);
  const auto steps = static_cast<size_t>(plan.staleness + 1);
  size_t bytes = comm::staging_bytes(plan, parts.size());
  for (const comm::LayerPlan& layer : plan.layers) {
    if (layer.scheme == comm::Scheme::kSfb) continue;
    for (const comm::TensorTraffic& tensor : layer.traffic.tensors) {
      const net::Parameter* parameter = find_named(net.parameters(), tensor.name);
      const auto elements = static_cast<size_t>(tensor.elements);
      const size_t packed = parameter != nullptr ? net.packed_count(*parameter) : elements;
      const size_t copies = (Tensor::is_direct(net, plan, parameter) ? 0 : steps) +
                            (parts.size() == 1 ? 0 : parts.size() * steps);
      bytes += copies * elements * sizeof(float);
      for (const comm::Part& part : parts) bytes += ShardTree::bytes(packed, part.count);
    }
  }
  for (const int layer : net.summed_layers())
    if (const auto shape = net.factor_shape(layer))
      bytes += comm::steps_of_factors(plan) * StackedFactors::bytes(*shape, plan.global_batch);
  return bytes;
}

// ---- the compute thread

size_t ClusterExchange::part_of(int64_t shard) const {
  const uint32_t number = shards_.first + static_cast<uint32_t>(shard);
  for (size_t i = 0; i < parts_.size(); ++i)
    if (number < parts_[i].first + parts_[i].count) return i;
  throw LogicError("a shard is not this worker's");
}

void ClusterExchange::begin_backward(int64_t shard) {
  check_alive();
  const auto index = static_cast<size_t>(shard);
  for (Layer& layer : layers_)
    if (!layer.factors.empty())
      net_.set_factor_memory(layer.node, layer.factors_of(step_).from(first_row_[index]));
}

void ClusterExchange::contribute_statistics(int64_t shard) {
  check_alive();
  std::vector<Contribution> all;
  for (uint32_t layer = 0; layer < layers_.size(); ++layer)
    for (const Contribution& each : sum_up(layer, true, shard)) all.push_back(each);
  contribute(std::move(all));
  if (announced_ == 0 && shard + 1 == static_cast<int64_t>(shards_.count)) end_step();
}

void ClusterExchange::contribute(std::vector<Contribution> all) {
  if (all.empty()) return;
  hand_over([this, step = step_, all = std::move(all)] {
    for (const Contribution& each : all)
      numbers_->contribute(step, each.layer, each.tensor, each.part, each.values);
  });
}

void ClusterExchange::contribute(int node, int64_t shard) {
  check_alive();
  const uint32_t layer = layer_of_node_.at(node);
  const bool last_shard = shard + 1 == static_cast<int64_t>(shards_.count);
  if (!layers_[layer].factors.empty()) {
    hand_over([this, step = step_, layer, shard = shards_.first + static_cast<uint32_t>(shard)] {
      numbers_->contribute_factors(step, layer, shard);
    });
  } else {
    contribute(sum_up(layer, false, shard));
  }
  if (last_shard && ++contributed_ == announced_) end_step();
}

/// All that this worker contributes to the step is handed over.
void ClusterExchange::end_step() {
  contributed_ = 0;
  ++step_;
  for (auto& task : held_back_) post_when_done(std::move(task));
  held_back_.clear();
}

/// Adds one shard's tensors of a layer to their part of the tree. What it completes is contributed.
std::vector<ClusterExchange::Contribution> ClusterExchange::sum_up(uint32_t index, bool statistics,
                                                                   int64_t shard) {
  std::vector<Contribution> complete;
  Layer& layer = layers_[index];
  const size_t part = part_of(shard);
  const int64_t place = shards_.first + shard - parts_[part].first;
  for (uint32_t t = 0; t < layer.tensors.size(); ++t) {
    Tensor& tensor = layer.tensors[t];
    if ((tensor.statistic != nullptr) != statistics || tensor.trees.empty()) continue;
    const std::span<float> values =
        statistics ? tensor.statistic->contribution : tensor.parameter->gradient;
    if (parts_[part].count > 1) tensor.trees[part].add(place, values);
    if (place + 1 == parts_[part].count)
      complete.push_back({index, t, parts_[part], finished_part(tensor, part)});
  }
  return complete;
}

/// The sum of a part in canonical order, where it may lie until the layer has arrived.
std::span<const float> ClusterExchange::finished_part(Tensor& tensor, size_t part) {
  if (parts_.size() == 1 && tensor.direct) return tensor.memory(step_);
  std::vector<Buffer>* const of_steps =
      parts_.size() == 1 ? &tensor.canonical : &tensor.parts[part];
  const std::span<float> kept = (*of_steps)[step_ % of_steps->size()].as<float>();
  copy_canonical(tensor, kept);
  return kept;
}

void ClusterExchange::copy_canonical(const Tensor& tensor, std::span<float> to) const {
  if (tensor.statistic != nullptr)
    net_.device().copy(tensor.statistic->contribution, to);
  else
    net_.canonical_gradient(*tensor.parameter, to);
}

/// The I/O thread reads what the device's work so far has written.
void ClusterExchange::post_when_done(std::function<void()> task) {
  net_.device().record().then([this, task = std::move(task)] { post_(task); });
}

void ClusterExchange::hand_over(std::function<void()> task) {
  if (plan_.overlap == comm::Overlap::kNone)
    held_back_.push_back(std::move(task));
  else
    post_when_done(std::move(task));
}

std::optional<int> ClusterExchange::arrived() {
  MutexLock lock(mutex_);
  if (lost_) throw JobLost(*lost_);
  if (arrivals_.empty()) return std::nullopt;
  const uint32_t layer = arrivals_.front();
  arrivals_.pop_front();
  return layers_[layer].node;
}

/// Who waits for long says so: once, or once a day.
void ClusterExchange::wait_for_change(Clock::time_point& patience) {
  if (changed_.wait_until(mutex_, patience)) return;
  patience += std::chrono::hours(24);
  on_long_wait_();
}

void ClusterExchange::wait() {
  Clock::time_point patience = Clock::now() + kLongWait;
  MutexLock lock(mutex_);
  while (!lost_ && arrivals_.empty()) wait_for_change(patience);
  if (lost_) throw JobLost(*lost_);
}

void ClusterExchange::give(int node, int64_t step, const layers::GradientSink* sink) {
  Layer& layer = layers_[layer_of_node_.at(node)];
  const auto of_step = static_cast<uint64_t>(step);
  if (!layer.factors.empty()) return net_.rebuild(node, layer.factors_of(of_step).all(), sink);
  for (const Tensor& tensor : layer.tensors) {
    const std::span<float> sum = tensor.memory(of_step);
    if (tensor.statistic == nullptr && sink != nullptr)
      net_.give_gradient(*tensor.parameter, sum, *sink);
    else if (tensor.statistic == nullptr && !tensor.direct)
      net_.gradient_from_canonical(*tensor.parameter, sum);
    else if (!tensor.direct)
      net_.device().copy(sum, tensor.statistic->contribution);
  }
}

void ClusterExchange::check_alive() {
  MutexLock lock(mutex_);
  if (lost_) throw JobLost(*lost_);
}

void ClusterExchange::lose(const std::string& why) {
  {
    MutexLock lock(mutex_);
    if (!lost_) lost_ = why;
  }
  changed_.notify_all();
}

std::vector<double> ClusterExchange::by_layer_of_plan(std::span<const double> of_net) const {
  std::vector<double> of_plan(layers_.size());
  for (size_t place = 0; place < of_net.size(); ++place)
    of_plan[layer_of_node_.at(net_.summed_layers()[place])] = of_net[place];
  return of_plan;
}

// ---- the I/O thread

void ClusterExchange::open(uint32_t view, comm::Outlet& outlet) {
  numbers_ = std::make_unique<comm::WorkerExchange>(
      plan_, rank_,
      comm::WorkerExchange::Options{
          .view = view,
          .first_step = first_step_,
          .first_in_first_out = plan_.overlap != comm::Overlap::kPriority},
      *this, outlet, [this](uint64_t, uint32_t layer) { note_arrival(layer); });
}

void ClusterExchange::note_arrival(uint32_t layer) {
  {
    MutexLock lock(mutex_);
    arrivals_.push_back(layer);
  }
  changed_.notify_one();
}

std::span<float> ClusterExchange::sum(uint32_t layer, uint32_t tensor, uint64_t step) {
  return layers_[layer].tensors[tensor].memory(step);
}

std::span<float> ClusterExchange::factors(uint32_t layer, uint32_t which, uint64_t step) {
  const layers::FactorMemory memory = layers_[layer].factors_of(step).all();
  const comm::LayerTraffic& traffic = plan_.layers[layer].traffic;
  const int64_t width = which == comm::kDeltas ? traffic.rows : traffic.columns;
  return {which == comm::kDeltas ? memory.deltas : memory.activations,
          static_cast<size_t>(plan_.global_batch * width)};
}

}  // namespace poseidon::trainer
