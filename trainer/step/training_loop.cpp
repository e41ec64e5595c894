#include "trainer/step/training_loop.h"

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

}  // namespace

StepTimes& StepTimes::operator+=(const StepTimes& other) {
  compute_ms += other.compute_ms;
  data_wait_ms += other.data_wait_ms;
  sum_wait_ms += other.sum_wait_ms;
  return *this;
}

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
      update_{.step =
                  options.steps_done - 1 - (options.sums != nullptr ? options.sums->steps() : 0)} {
  check(options.staleness == 0 || options.sums != nullptr, "late sums need a place");
  // Of every layer, since the gates of those that do not learn are asked too.
  under_way_.resize(at(net.layer_count()));
  place_of_.resize(under_way_.size());
  for (size_t place = 0; place < net.summed_layers().size(); ++place)
    place_of_[at(net.summed_layers()[place])] = place;
  layer_wait_ms_.resize(net.summed_layers().size());
  labels_.resize(under_way_.size());
  if (options_.trace != nullptr) label_spans();
}

void TrainingLoop::label_spans() {
  TraceRecorder& trace = *options_.trace;
  net_.set_trace(&trace);
  data_label_ = trace.label({"compute", "wait", "batch"});
  all_label_ = trace.label({"compute", "wait", "all sums"});
  for (const int layer : net_.summed_layers())
    labels_[at(layer)] = {
        .wait = trace.label({"compute", "wait", net_.layer_name(layer)}),
        .update = trace.label({"compute", "update", net_.layer_name(layer)}),
        .contribute = trace.label({"compute", "contribute", net_.layer_name(layer)})};
}

StepReport TrainingLoop::step() {
  const Clock::time_point start = Clock::now();
  times_ = {};
  std::ranges::fill(layer_wait_ms_, 0);
  if (options_.trace != nullptr) options_.trace->set_step(steps_done_ + 1);
  StepReport report;
  report.step = steps_done_ + 1;
  begin_updates_until(steps_done_ - options_.staleness);
  for (size_t shard = 0; shard < options_.shards.size(); ++shard) run_shard(shard, report);
  if (optimizer_.clips() && options_.staleness == 0) update_clipped();
  report.learning_rate = schedule_.learning_rate(steps_done_);
  ++steps_done_;
  set_means(report.shards, options_.global_batch, report);
  times_.compute_ms = milliseconds_since(start) - times_.wait_ms();
  report.times = times_;
  report.layer_wait_ms = layer_wait_ms_;
  return report;
}

const data::Batch& TrainingLoop::next_batch() {
  const TraceScope span(options_.trace, data_label_);
  const Clock::time_point start = Clock::now();
  const data::Batch& batch = loader_.next();
  times_.data_wait_ms += milliseconds_since(start);
  return batch;
}

void TrainingLoop::run_shard(size_t shard, StepReport& report) {
  const data::Batch& batch = next_batch();
  std::ranges::copy(batch.pixels, net_.input().data);
  const layers::StepContext context{.phase = layers::Phase::kTrain,
                                    .seed = options_.seed,
                                    .step = steps_done_,
                                    .first_sample = options_.shards[shard].first,
                                    .labels = batch.labels,
                                    .loss_scale = 1 / static_cast<float>(options_.global_batch)};
  report.shards.push_back(forward_and_measure(context));
  // Updates of the step before are over: this forward pass has been through every gate.
  if (shard + 1 == options_.shards.size() && options_.staleness == 0) begin_updates(steps_done_);
  const auto number = static_cast<int64_t>(shard);
  exchange_.forward_done(number);
  net_.backward(
      context, [&](int layer) { contribute(layer, number); }, [this] { update_arrived(); });
}

void TrainingLoop::contribute(int layer, int64_t shard) {
  const TraceScope span(options_.trace, labels_[at(layer)].contribute);
  exchange_.contribute(layer, shard);
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

/// Those of the step before are over.
void TrainingLoop::begin_updates(int64_t step) {
  update_ = {.step = step, .learning_rate = schedule_.learning_rate(step)};
  updated_.clear();
  for (const int layer : net_.summed_layers()) under_way_[at(layer)] = true;
  layers_under_way_ = static_cast<int>(net_.summed_layers().size());
}

/// Those of the last of these steps; ones before it that are due too are made here and now.
void TrainingLoop::begin_updates_until(int64_t steps) {
  while (update_.step + 1 < steps) {
    open_gates();
    begin_updates(update_.step + 1);
  }
}

void TrainingLoop::open_gate(int layer) {
  if (under_way_[at(layer)] && takes_by_step()) return update_by_step(layer);
  while (under_way_[at(layer)]) await_one(layer);
}

void TrainingLoop::open_gates() {
  for (const int layer : net_.summed_layers()) open_gate(layer);
}

bool TrainingLoop::takes_by_step() const {
  return options_.staleness > 0 || (options_.sums != nullptr && options_.sums->holds(update_.step));
}

/// Whether an update finds its gradients in the net's memory, rather than take them in pieces.
bool TrainingLoop::gradients_come_whole() const {
  return optimizer_.needs_norms() ||
         (options_.sums != nullptr && options_.sums->holds(update_.step));
}

/// `needed`: the layer whose gate is shut.
void TrainingLoop::await_sum(int layer, int64_t step, int needed) {
  const Clock::time_point start = Clock::now();
  {
    const TraceScope span(options_.trace, labels_[at(needed)].wait);
    exchange_.await_sum(layer, step);
  }
  const double waited_ms = milliseconds_since(start);
  times_.sum_wait_ms += waited_ms;
  layer_wait_ms_[place_of_[at(needed)]] += waited_ms;
}

/// Puts a sum into the net's memory.
void TrainingLoop::load_sum(int layer, int64_t step, int needed) {
  if (options_.sums->holds(step)) return options_.sums->load(step, layer);
  await_sum(layer, step, needed);
  exchange_.give(layer, step, nullptr);
}

void TrainingLoop::update_by_step(int layer) {
  if (!optimizer_.clips()) {
    if (gradients_come_whole())
      load_sum(layer, update_.step, layer);
    else
      await_sum(layer, update_.step, layer);
    return update_layer(layer);
  }
  // The common norm needs the sums of all layers before the first update.
  for (const int each : net_.summed_layers()) load_sum(each, update_.step, layer);
  update_.gradient_scale = optimizer_.clipping_scale();
  for (const int each : net_.summed_layers()) update_layer(each);
}

void TrainingLoop::await_one(std::optional<int> needed) {
  const Clock::time_point start = Clock::now();
  {
    const TraceScope span(options_.trace, needed ? labels_[at(*needed)].wait : all_label_);
    exchange_.wait();
  }
  const double waited_ms = milliseconds_since(start);
  const std::optional<int> layer = exchange_.arrived();
  check(layer.has_value(), "an exchange that was waited for has something to give");
  times_.sum_wait_ms += waited_ms;
  layer_wait_ms_[place_of_[at(needed.value_or(*layer))]] += waited_ms;
  arrived(*layer);
}

void TrainingLoop::update_arrived() {
  while (const std::optional<int> layer = exchange_.arrived()) arrived(*layer);
}

void TrainingLoop::arrived(int layer) {
  if (optimizer_.needs_norms()) exchange_.give(layer, update_.step, nullptr);
  if (optimizer_.clips())
    unclipped_.push_back(layer);
  else
    update_layer(layer);
}

void TrainingLoop::update_clipped() {
  while (unclipped_.size() < static_cast<size_t>(layers_under_way_)) await_one({});
  update_.gradient_scale = optimizer_.clipping_scale();
  for (int layer : unclipped_) update_layer(layer);
  unclipped_.clear();
}

void TrainingLoop::update_layer(int layer) {
  const TraceScope span(options_.trace, labels_[at(layer)].update);
  update_parameters(layer);
  for (const int index : net_.statistics_of(layer))
    optimizer_.track(net_.statistics()[at(index)], options_.logical_shards);
  flip(layer);
  updated_.push_back(layer);
  under_way_[at(layer)] = false;
  --layers_under_way_;
}

void TrainingLoop::update_parameters(int layer) {
  const std::span<const int> parameters = net_.parameters_of(layer);
  if (gradients_come_whole()) {
    for (const int index : parameters) optimizer_.update(at(index), update_);
    return;
  }
  // Each piece of a sum while it is in the cache.
  std::vector<layers::UpdateNumbers> numbers;
  for (const int index : parameters) numbers.push_back(optimizer_.numbers(at(index), update_));
  const layers::GradientSink update = [&](int place, int64_t first, std::span<const float> piece) {
    // Factors give the gradients of frozen parameters too.
    const size_t index = at(parameters[at(place)]);
    if (net_.parameters()[index].learned)
      optimizer_.update(index, numbers[at(place)], first, piece);
  };
  exchange_.give(layer, update_.step, &update);
}

void TrainingLoop::flip(int layer) {
  net_.flip(layer);
  optimizer_.flip(layer);
}

void TrainingLoop::settle() {
  begin_updates_until(steps_done_ - options_.staleness);
  open_gates();
}

void TrainingLoop::settle_for_checkpoint() {
  settle();
  if (options_.sums == nullptr) return;
  SumsInFlight& sums = *options_.sums;
  sums.drop_before(last_complete_step());
  for (int64_t step = last_complete_step() + sums.steps(); step < steps_done_; ++step) {
    for (const int layer : net_.summed_layers()) {
      load_sum(layer, step, layer);
      sums.keep(step, layer);
    }
    sums.add_step();
  }
}

void TrainingLoop::finish() {
  begin_updates_until(steps_done_);
  open_gates();
}

void TrainingLoop::revert_incomplete() {
  if (options_.sums != nullptr) options_.sums->begin_with(0, 0);
  if (layers_under_way_ > 0) {
    check(updated_.empty() || net_.versions() == 2, "one version of the parameters cannot go back");
    for (const int layer : updated_) flip(layer);
    updated_.clear();
  }
  steps_done_ = last_complete_step();
}

}  // namespace poseidon::trainer
