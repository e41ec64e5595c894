#include "trainer/step/layer_updates.h"

#include <bit>

#include "comm/wire/mutation.h"
#include "core/error.h"

namespace poseidon::trainer {

LayerUpdates::LayerUpdates(net::Net& net, Optimizer& optimizer, GradientExchange& exchange,
                           const Schedule& schedule, const SumsInFlight* sums,
                           int64_t logical_shards)
    : net_(net),
      optimizer_(optimizer),
      exchange_(exchange),
      schedule_(schedule),
      sums_(sums),
      logical_shards_(logical_shards),
      graph_capture_(net.device().make_graph_capture()) {}

void LayerUpdates::make(std::span<const int> layers, int64_t step) {
  // release() makes the device wait for the exchange's work on the layer. begin() issues a copy of
  // the update parameters. It follows release(), so that the same wait orders both the copy and the
  // update.
  for (const int layer : layers) exchange_.release(layer);
  if (!step_ || step_->step != step) begin(step);
  const bool whole = gradients_come_whole();
  for (const int layer : layers) {
    if (whole && !optimizer_.clips()) load_sums(layer);
    if (optimizer_.has_trust()) optimizer_.begin(*step_, layer);
  }
  const auto issue_all = [&] {
    optimizer_.combine([&] {
      for (const int layer : layers) issue(layer, whole);
    });
  };
  if (graph_capture_->records())
    graph_capture_->issue(key_of(layers, whole), issue_all);
  else
    issue_all();
  for (const int layer : layers) flip(layer);
}

void LayerUpdates::revert(int layer) {
  check(net_.parameters().versions() == 2, "a revert needs two versions of the parameters");
  flip(layer);
  step_.reset();
}

void LayerUpdates::begin(int64_t step) {
  step_ = {.step = step, .learning_rate = schedule_.learning_rate(step)};
  if (comm::mutated(comm::Mutation::kWrongUpdate) && step == 249) step_->learning_rate *= 2;
  if (optimizer_.clips()) {
    for (const int layer : net_.parameters().summed_layers()) load_sums(layer);
    step_->gradient_scale = optimizer_.clipping_scale();
  }
  if (!optimizer_.has_trust()) optimizer_.begin(*step_);
}

/// Whether an update reads whole gradients from the net's memory, rather than in pieces from the
/// exchange.
bool LayerUpdates::gradients_come_whole() const {
  return optimizer_.needs_norms() || (sums_ != nullptr && sums_->holds(step_->step));
}

/// Loads a layer's sums into the net's memory.
void LayerUpdates::load_sums(int layer) {
  exchange_.release(layer);
  if (sums_ != nullptr && sums_->holds(step_->step))
    sums_->load(step_->step, layer);
  else
    exchange_.deliver(layer, step_->step, nullptr);
}

/// The graph key of updates: the current versions of the tensors, and the memory of the sums. The
/// updates read all other changing values from device memory.
GraphKey LayerUpdates::key_of(std::span<const int> layers, bool whole) const {
  GraphKey key{"update", {whole}};
  const auto add = [&](const float* memory) {
    key.numbers.push_back(static_cast<int64_t>(std::bit_cast<intptr_t>(memory)));
  };
  for (const int layer : layers) {
    key.numbers.insert(key.numbers.end(), {layer, exchange_.slot(layer, step_->step)});
    for (const int index : net_.parameters().of(layer))
      add(net_.parameters()[static_cast<size_t>(index)].value().data());
    for (const int index : net_.parameters().statistics_of(layer))
      add(net_.parameters().statistics()[static_cast<size_t>(index)].value().data());
  }
  return key;
}

void LayerUpdates::issue(int layer, bool whole) {
  if (whole)
    for (const int index : net_.parameters().of(layer))
      optimizer_.update(static_cast<size_t>(index));
  else
    update_in_pieces(layer);
  for (const int index : net_.parameters().statistics_of(layer))
    optimizer_.track(net_.parameters().statistics()[static_cast<size_t>(index)], logical_shards_);
}

/// Updates the elements of each piece of a sum while the piece is in the cache.
void LayerUpdates::update_in_pieces(int layer) {
  const std::span<const int> parameters = net_.parameters().of(layer);
  const layers::GradientSink update = [&](int place, int64_t first, std::span<const float> piece) {
    // Gradients rebuilt from factors include those of frozen parameters.
    const auto index = static_cast<size_t>(parameters[static_cast<size_t>(place)]);
    if (net_.parameters()[index].learned) optimizer_.update(index, first, piece);
  };
  exchange_.deliver(layer, step_->step, &update);
}

void LayerUpdates::flip(int layer) {
  net_.parameters().flip(layer);
  optimizer_.flip(layer);
}

}  // namespace poseidon::trainer
