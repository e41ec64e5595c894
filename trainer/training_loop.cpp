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

int layers_of(net::Net& net) {
  int layers = 0;
  for (const net::Parameter& parameter : net.parameters())
    layers = std::max(layers, parameter.layer + 1);
  return layers;
}

}  // namespace

size_t main_loss(const std::vector<net::Net::Loss>& losses) {
  size_t best = 0;
  for (size_t i = 1; i < losses.size(); ++i)
    if (losses[i].weight >= losses[best].weight) best = i;
  return best;
}

StatisticsUpdate::StatisticsUpdate(net::Net& net, layers::Updater& updater, int64_t shards)
    : net_(net), shards_(shards) {
  for (const net::Statistic& statistic : net.statistics())
    trees_.emplace_back(statistic.contribution.size(), shards, updater);
}

void StatisticsUpdate::add(int64_t shard) {
  for (size_t i = 0; i < trees_.size(); ++i)
    trees_[i].add(shard, net_.statistics()[i].contribution);
}

void StatisticsUpdate::apply() {
  const float share = 1 / static_cast<float>(shards_);
  for (net::Statistic& statistic : net_.statistics()) {
    const auto momentum = static_cast<float>(statistic.spec.momentum);
    for (size_t i = 0; i < statistic.value.size(); ++i)
      statistic.value[i] += momentum * (statistic.contribution[i] * share - statistic.value[i]);
  }
}

TrainingLoop::TrainingLoop(net::Net& net, Optimizer& optimizer, GradientExchange& exchange,
                           StatisticsUpdate& statistics, const Schedule& schedule,
                           data::Loader& loader, const Options& options)
    : net_(net),
      optimizer_(optimizer),
      exchange_(exchange),
      statistics_(statistics),
      schedule_(schedule),
      loader_(loader),
      options_(options),
      steps_done_(options.steps_done),
      under_way_(at(layers_of(net))) {}

StepReport TrainingLoop::step() {
  const Clock::time_point start = Clock::now();
  waited_ms_ = 0;
  StepReport report{.step = steps_done_ + 1};
  // Updates of the step before are over when the first shard's forward pass is.
  for (int64_t shard = 0; shard < options_.shards; ++shard) run_shard(shard, report);
  if (optimizer_.clips()) update_clipped();
  statistics_.apply();
  ++steps_done_;
  report.learning_rate = update_.learning_rate;
  report.wait_ms = waited_ms_;
  report.compute_ms = milliseconds_since(start) - waited_ms_;
  return report;
}

void TrainingLoop::run_shard(int64_t shard, StepReport& report) {
  const Clock::time_point start = Clock::now();
  const data::Batch& batch = loader_.next();
  waited_ms_ += milliseconds_since(start);
  std::ranges::copy(batch.pixels, net_.input().data);
  const layers::StepContext context{
      .phase = layers::Phase::kTrain,
      .seed = options_.seed,
      .step = steps_done_,
      .first_sample = shard * (options_.global_batch / options_.shards),
      .labels = batch.labels,
      .loss_scale = 1 / static_cast<float>(options_.global_batch)};
  forward_and_measure(context, report);
  statistics_.add(shard);
  update_ = {.step = steps_done_, .learning_rate = schedule_.learning_rate(steps_done_)};
  net_.backward(context, [&](int layer) {
    if (shard == options_.shards - 1) {
      under_way_[at(layer)] = true;
      ++layers_under_way_;
    }
    exchange_.contribute(layer, shard);
    update_arrived();
  });
}

void TrainingLoop::forward_and_measure(const layers::StepContext& context, StepReport& report) {
  net_.forward(context, [this](int layer) { open_gate(layer); });
  const std::vector<net::Net::Loss> losses = net_.losses();
  const double share = 1 / static_cast<double>(options_.global_batch);
  for (const net::Net::Loss& loss : losses)
    for (size_t i = 0; i < loss.loss_and_rank.size(); i += 2)
      report.loss += share * loss.weight * static_cast<double>(loss.loss_and_rank[i]);
  const std::span<const float> ranked = losses[main_loss(losses)].loss_and_rank;
  for (size_t i = 0; i < ranked.size(); i += 2) report.top1 += ranked[i + 1] == 0 ? share : 0;
  if (std::isfinite(report.loss)) return;
  const std::string layer = net_.first_non_finite(context);
  throw RunError(text(
      "step ", report.step, ": the loss is ", report.loss,
      layer.empty() ? "" : "; the first layer with a value that is not finite is \"", layer,
      layer.empty() ? "" : "\"", " (a smaller learning rate, a warm-up or clip_norm may help)"));
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
  for (int index : net_.parameters_of(layer)) optimizer_.update(at(index), update_);
  under_way_[at(layer)] = false;
  --layers_under_way_;
}

void TrainingLoop::settle() {
  for (size_t layer = 0; layer < under_way_.size(); ++layer) open_gate(static_cast<int>(layer));
}

}  // namespace poseidon::trainer
