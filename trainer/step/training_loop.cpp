#include "trainer/step/training_loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/error.h"
#include "trainer/step/net_batches.h"

namespace poseidon::trainer {

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

size_t at(int index) { return static_cast<size_t>(index); }

/// The number of layers with gradients that the loop issues to an asynchronous device before it
/// waits for the loss. So the device has work while the waiting thread wakes up (about 50 us).
constexpr size_t kGradientsBeforeLoss = 4;

/// Waits for the results of the forward pass. Throws RunError if the loss is not finite. The
/// diagnosis repeats the passes, and other values may have overwritten their input, so it is set
/// again.
SampleSums measure(net::Net& net, const data::Batch& batch, data::Loader& loader,
                   const layers::StepContext& context, int64_t steps_done) {
  const SampleSums sums = sums_of_batch(net, net.input_shape().samples());
  if (std::isfinite(sums.loss)) return sums;
  set_input(net, batch, loader);
  const std::string layer = net.diagnosis().first_non_finite(context);
  throw RunError(text(
      "step ", steps_done + 1, ": the loss is ", sums.loss,
      layer.empty() ? "" : "; the first layer with a value that is not finite is \"", layer,
      layer.empty() ? "" : "\"", " (a smaller learning rate, a warm-up or clip_norm may help)"));
}

}  // namespace

TrainingLoop::TrainingLoop(net::Net& net, Optimizer& optimizer, GradientExchange& exchange,
                           const Schedule& schedule, data::Loader& loader, const Options& options)
    : net_(net),
      exchange_(exchange),
      schedule_(schedule),
      loader_(loader),
      options_(options),
      updates_(net, optimizer, exchange, schedule, options.sums, options.logical_shards),
      // Gradient clipping needs all sums before the first update, for their common norm.
      barrier_(options.barrier || optimizer.clips()),
      // A trace requires a span for each layer, so it excludes halves.
      halves_(exchange.is_local() && !net.device().shares_memory() && options.trace == nullptr),
      machine_({.layers = net.parameters().summed_layers().size(),
                .done = options.steps_done,
                .in_flight = options.sums != nullptr ? options.sums->steps() : 0,
                .staleness = options.staleness,
                .barrier = barrier_}),
      device_trace_(net, options.trace) {
  check(options.staleness == 0 || options.sums != nullptr, "late sums need memory");
  index_of_.resize(at(net.layer_count()));
  for (size_t index = 0; index < net.parameters().summed_layers().size(); ++index)
    index_of_[at(layer_at(index))] = index;
  layer_wait_ms_.resize(net.parameters().summed_layers().size());
  read_.assign(layer_wait_ms_.size(), std::vector<Event>(at(net.parameters().versions())));
  updated_.resize(layer_wait_ms_.size());
  labels_.resize(net.parameters().summed_layers().size());
  if (options_.trace != nullptr) label_spans();
}

void TrainingLoop::label_spans() {
  TraceRecorder& trace = *options_.trace;
  net_.set_trace(&trace);
  data_label_ = trace.label({"compute", "wait", "batch"});
  for (size_t index = 0; index < labels_.size(); ++index) {
    const std::string& name = net_.layer_name(layer_at(index));
    labels_[index] = {.wait = trace.label({"compute", "wait", name}),
                      .update = trace.label({"compute", "update", name}),
                      .contribute = trace.label({"compute", "contribute", name})};
  }
}

StepReport TrainingLoop::step() {
  const Clock::time_point start = Clock::now();
  times_ = {};
  std::ranges::fill(layer_wait_ms_, 0);
  if (options_.trace != nullptr) options_.trace->set_step(steps_done() + 1);
  StepReport report;
  report.learning_rate = schedule_.learning_rate(steps_done());
  for (size_t shard = 0; shard < options_.shards.size(); ++shard) run_shard(shard, report);
  machine_.end_step();
  device_trace_.collect();
  report.step = steps_done();
  report.mean = mean_of_shards(report.shards, options_.global_batch);
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
  device_trace_.begins_shard();
  const data::Batch& batch = next_batch();
  set_input(net_, batch, loader_);
  device_trace_.has_batch();
  const layers::StepParameters numbers{
      .seed = options_.seed, .step = steps_done(), .first_sample = options_.shards[shard].first};
  const layers::StepContext context{.phase = layers::Phase::kTrain,
                                    .numbers = &numbers,
                                    .labels = batch.labels,
                                    .mixup_labels = batch.mixup_labels,
                                    .loss_scale = 1 / static_cast<float>(options_.global_batch)};
  const net::Gate gate = [this](int layer) {
    device_trace_.comes_to_gate();
    open_gate(layer);
    device_trace_.passes_gate(layer);
  };
  if (halves_) drain();
  net_.forward(context, halves_ ? nullptr : gate);
  device_trace_.ends_forward();
  if (shard == 0 && options_.between_passes) {
    drain();  // updates layers for which the forward pass has not waited
    options_.between_passes(steps_done());
  }
  const auto number = static_cast<int64_t>(shard);
  exchange_.begin_backward(number);
  backward(batch, context, number, report);
}

/// Runs the backward pass of a shard, contributes its gradients, and makes the updates that become
/// due. Checks the loss before the first contribution: contributions of a shard with a non-finite
/// loss must not leave this worker, and no update may apply them. The check blocks until the device
/// has finished the forward pass. So the loop first issues several layers of the backward pass to
/// an asynchronous device.
void TrainingLoop::backward(const data::Batch& batch, const layers::StepContext& context,
                            int64_t shard, StepReport& report) {
  std::vector<FinalGradient> made;  // not contributed yet
  const auto contribute_made = [&] {
    if (std::ssize(report.shards) == shard) {
      report.shards.push_back(measure(net_, batch, loader_, context, steps_done()));
      contribute_statistics(shard);
    }
    if (halves_)
      contribute(made, shard);
    else
      for (const FinalGradient& gradient : made) contribute({&gradient, 1}, shard);
    made.clear();
  };
  const size_t most = net_.device().shares_memory() ? 1 : kGradientsBeforeLoss;
  const auto on_gradient = [&](int layer) {
    device_trace_.has_gradient(layer);
    made.push_back({layer, net_.device().record()});
    const bool is_known = std::ssize(report.shards) > shard;
    if (!halves_ && (is_known || made.size() == most)) contribute_made();
  };
  const auto between_layers = [&] {
    if (halves_) contribute_made();
    make_updates();
  };
  const int64_t half = (std::ssize(net_.parameters().summed_layers()) + 1) / 2;
  net_.backward(context, on_gradient, between_layers, halves_ ? half : 1);
  contribute_made();
  make_updates();
}

/// Contributes the statistics of all layers. After the last shard, layers whose gradients the
/// backward pass does not announce have contributed everything.
void TrainingLoop::contribute_statistics(int64_t shard) {
  exchange_.contribute_statistics(shard);
  if (shard + 1 != std::ssize(options_.shards)) return;
  for (size_t index = 0; index < labels_.size(); ++index)
    if (!net_.parameters().announces(layer_at(index))) {
      contributed_.push_back(index);
      machine_.contributed(index);
    }
}

void TrainingLoop::contribute(std::span<const FinalGradient> gradients, int64_t shard) {
  if (gradients.empty()) return;
  const auto index_of = [&](const FinalGradient& of) { return index_of_[at(of.layer)].value(); };
  const TraceScope span(options_.trace, labels_[index_of(gradients.front())].contribute);
  exchange_.contribute(gradients, shard);
  if (shard + 1 != std::ssize(options_.shards)) return;
  for (const FinalGradient& gradient : gradients) {
    contributed_.push_back(index_of(gradient));
    machine_.contributed(index_of(gradient));
  }
}

// ---- updates

/// Waits until the layer's parameters have the values for the current step. Updates this layer
/// first if its update is due. Otherwise updates layers whose update is due, or waits for sums.
void TrainingLoop::open_gate(int layer) {
  const std::optional<size_t> index = index_of_[at(layer)];
  if (!index) return;
  if (!machine_.open(*index)) await_update(*index);
  net_.device().await(updated_[*index]);
  exchange_.release(layer);
}

void TrainingLoop::await_update(size_t index) {
  take_arrivals();
  while (!machine_.open(index))
    if (const std::optional<size_t> due = machine_.due(index))
      update({&*due, 1});
    else
      await_arrival(index);
}

void TrainingLoop::make_updates() {
  note_contributed();
  take_arrivals();
  if (halves_)
    for (auto due = machine_.all_due(); !due.empty(); due = machine_.all_due()) update(due);
  else
    while (const std::optional<size_t> due = machine_.due()) update({&*due, 1});
}

void TrainingLoop::take_arrivals() {
  while (const std::optional<int> layer = exchange_.arrived())
    machine_.arrived(index_of_[at(*layer)].value());
}

/// Waits for the sums of any layer. Adds the wait time to layer `index`, which needs its sums.
void TrainingLoop::await_arrival(size_t index) {
  const Clock::time_point start = Clock::now();
  {
    const TraceScope span(options_.trace, labels_[index].wait);
    exchange_.wait();
  }
  const double waited_ms = milliseconds_since(start);
  times_.sum_wait_ms += waited_ms;
  layer_wait_ms_[index] += waited_ms;
  take_arrivals();
}

void TrainingLoop::await_sums(size_t index, int64_t step) {
  take_arrivals();
  while (!machine_.has_sums(index, step)) await_arrival(index);
}

/// For each layer that has contributed its gradient, records the event after the last read of the
/// layer's parameters. The update that overwrites them waits for this event. The backward pass may
/// read parameters after it has announced the gradients, but before this call.
void TrainingLoop::note_contributed() {
  for (const size_t index : contributed_) read_[index].back() = net_.device().record();
  contributed_.clear();
}

/// Makes the next updates of these layers. All these updates are of the same step.
void TrainingLoop::update(std::span<const size_t> indices) {
  const TraceScope span(options_.trace, labels_[indices.front()].update);
  Device& device = net_.device();
  const bool together = barrier_ || indices.size() > 1;
  const Event when = together ? device.record() : read_[indices.front()].front();
  std::vector<int> layers;
  for (const size_t index : indices) layers.push_back(layer_at(index));
  updating_ = true;
  const Event updated = device.issue_on_stream(DeviceStream::kUpdate, when, [&] {
    updates_.make(layers, machine_.next_update(indices.front()));
  });
  for (const size_t index : indices) {
    updated_[index] = updated;
    std::ranges::rotate(read_[index], read_[index].begin() + 1);
    machine_.updated(index);
  }
  updating_ = false;
}

void TrainingLoop::drain() {
  for (const int layer : net_.parameters().summed_layers()) open_gate(layer);
}

void TrainingLoop::drain_for_checkpoint() {
  drain();
  device_trace_.collect_all();
  if (options_.sums == nullptr) return;
  SumsInFlight& sums = *options_.sums;
  sums.drop_before(last_complete_step());
  for (int64_t step = last_complete_step() + sums.steps(); step < steps_done(); ++step) {
    for (size_t index = 0; index < labels_.size(); ++index) {
      await_sums(index, step);
      exchange_.deliver(layer_at(index), step, nullptr);
      sums.keep(step, layer_at(index));
    }
    sums.add_step();
  }
}

void TrainingLoop::finish() {
  machine_.finish();
  drain();
}

void TrainingLoop::revert_to(int64_t step) {
  if (options_.sums != nullptr) options_.sums->begin_with(0, 0);
  for (const size_t index : machine_.revert_to(step)) {
    updates_.revert(layer_at(index));
    std::ranges::rotate(read_[index], read_[index].end() - 1);
  }
}

}  // namespace poseidon::trainer
