#include "trainer/training_loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/error.h"

namespace poseidon::trainer {

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

size_t at(int index) { return static_cast<size_t>(index); }

/// value + momentum * (mean of the shards' contributions - value).
void update_statistic(const net::Statistic& statistic, int64_t shards) {
  const float share = 1 / static_cast<float>(shards);
  const auto momentum = static_cast<float>(statistic.spec.momentum);
  for (size_t i = 0; i < statistic.value.size(); ++i) {
    const float value = statistic.value[i];
    statistic.next[i] = value + momentum * (statistic.contribution[i] * share - value);
  }
}

}  // namespace

size_t main_loss(const std::vector<net::Net::Loss>& losses) {
  size_t best = 0;
  for (size_t i = 1; i < losses.size(); ++i)
    if (losses[i].weight >= losses[best].weight) best = i;
  return best;
}

void set_means(std::span<const ShardReport> shards, int64_t global_batch, StepReport& report) {
  double loss = 0;
  int64_t hits = 0;
  for (const ShardReport& shard : shards) {
    loss += shard.loss;
    hits += shard.hits;
  }
  report.loss = loss / static_cast<double>(global_batch);
  report.top1 = static_cast<double>(hits) / static_cast<double>(global_batch);
}

TrainingLoop::TrainingLoop(net::Net& net, Optimizer& optimizer, GradientExchange& exchange,
                           const Schedule& schedule, data::Loader& loader, const Options& options)
    : net_(net),
      optimizer_(optimizer),
      exchange_(exchange),
      schedule_(schedule),
      loader_(loader),
      options_(options),
      steps_done_(options.steps_done),
      update_{.step = options.steps_done - 1} {
  for (const int layer : net.summed_layers())
    under_way_.resize(std::max(under_way_.size(), at(layer) + 1));
}

StepReport TrainingLoop::step() {
  const Clock::time_point start = Clock::now();
  waited_ms_ = 0;
  StepReport report{.step = steps_done_ + 1, .shards = {}};
  for (size_t shard = 0; shard < options_.shards.size(); ++shard) run_shard(shard, report);
  if (optimizer_.clips()) update_clipped();
  ++steps_done_;
  set_means(report.shards, options_.global_batch, report);
  report.learning_rate = update_.learning_rate;
  report.wait_ms = waited_ms_;
  report.compute_ms = milliseconds_since(start) - waited_ms_;
  return report;
}

void TrainingLoop::run_shard(size_t shard, StepReport& report) {
  const Clock::time_point start = Clock::now();
  const data::Batch& batch = loader_.next();
  waited_ms_ += milliseconds_since(start);
  std::ranges::copy(batch.pixels, net_.input().data);
  const layers::StepContext context{.phase = layers::Phase::kTrain,
                                    .seed = options_.seed,
                                    .step = steps_done_,
                                    .first_sample = options_.shards[shard].first,
                                    .labels = batch.labels,
                                    .loss_scale = 1 / static_cast<float>(options_.global_batch)};
  report.shards.push_back(forward_and_measure(context));
  if (shard + 1 == options_.shards.size()) begin_updates();
  const auto number = static_cast<int64_t>(shard);
  exchange_.forward_done(number);
  net_.backward(
      context, [&](int layer) { exchange_.contribute(layer, number); },
      [this] { update_arrived(); });
}

ShardReport TrainingLoop::forward_and_measure(const layers::StepContext& context) {
  net_.forward(context, [this](int layer) { open_gate(layer); });
  const std::vector<net::Net::Loss> losses = net_.losses();
  ShardReport report;
  for (const net::Net::Loss& loss : losses)
    for (size_t i = 0; i < loss.loss_and_rank.size(); i += 2)
      report.loss += loss.weight * static_cast<double>(loss.loss_and_rank[i]);
  const std::span<const float> ranked = losses[main_loss(losses)].loss_and_rank;
  for (size_t i = 0; i < ranked.size(); i += 2) report.hits += ranked[i + 1] == 0 ? 1 : 0;
  if (std::isfinite(report.loss)) return report;
  const std::string layer = net_.first_non_finite(context);
  throw RunError(text(
      "step ", steps_done_ + 1, ": the loss is ", report.loss,
      layer.empty() ? "" : "; the first layer with a value that is not finite is \"", layer,
      layer.empty() ? "" : "\"", " (a smaller learning rate, a warm-up or clip_norm may help)"));
}

/// Updates of the step before are over: this step's forward pass has been through every gate.
void TrainingLoop::begin_updates() {
  update_ = {.step = steps_done_, .learning_rate = schedule_.learning_rate(steps_done_)};
  updated_.clear();
  for (const int layer : net_.summed_layers()) under_way_[at(layer)] = true;
  layers_under_way_ = static_cast<int>(net_.summed_layers().size());
}

void TrainingLoop::open_gate(int layer) {
  while (under_way_[at(layer)]) await_one();
}

void TrainingLoop::await_one() {
  const Clock::time_point start = Clock::now();
  const int layer = exchange_.wait();
  waited_ms_ += milliseconds_since(start);
  arrived(layer);
}

void TrainingLoop::update_arrived() {
  while (const std::optional<int> layer = exchange_.arrived()) arrived(*layer);
}

void TrainingLoop::arrived(int layer) {
  if (optimizer_.clips())
    unclipped_.push_back(layer);
  else
    update_layer(layer);
}

void TrainingLoop::update_clipped() {
  while (unclipped_.size() < static_cast<size_t>(layers_under_way_)) await_one();
  update_.gradient_scale = optimizer_.clipping_scale();
  for (int layer : unclipped_) update_layer(layer);
  unclipped_.clear();
}

void TrainingLoop::update_layer(int layer) {
  for (const int index : net_.parameters_of(layer)) optimizer_.update(at(index), update_);
  for (const int index : net_.statistics_of(layer))
    update_statistic(net_.statistics()[at(index)], options_.logical_shards);
  flip(layer);
  updated_.push_back(layer);
  under_way_[at(layer)] = false;
  --layers_under_way_;
}

void TrainingLoop::flip(int layer) {
  net_.flip(layer);
  optimizer_.flip(layer);
}

void TrainingLoop::settle() {
  for (const int layer : net_.summed_layers()) open_gate(layer);
}

void TrainingLoop::revert_incomplete() {
  if (layers_under_way_ == 0) return;
  check(updated_.empty() || net_.versions() == 2, "one version of the parameters cannot go back");
  for (const int layer : updated_) flip(layer);
  updated_.clear();
  steps_done_ = last_complete_step();
}

}  // namespace poseidon::trainer
