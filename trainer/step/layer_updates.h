#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "net/net.h"
#include "trainer/job/schedule.h"
#include "trainer/step/exchange.h"
#include "trainer/step/optimizer.h"
#include "trainer/step/sums_in_flight.h"

namespace poseidon::trainer {

/// Makes the updates of layers: computes the next values of parameters, optimizer state and running
/// statistics from the sums of a step. An update uses the learning rate and step number of the step
/// whose sums it applies. Used by the compute thread.
class LayerUpdates {
 public:
  /// All arguments must outlive this object. `sums` holds the sums restored from a checkpoint; it
  /// may be null.
  LayerUpdates(net::Net& net, Optimizer& optimizer, GradientExchange& exchange,
               const Schedule& schedule, const SumsInFlight* sums, int64_t logical_shards);

  /// Makes the updates of these layers for `step`, counted from 0. The sums of these layers for the
  /// step must have arrived; with gradient clipping, the sums of all layers. Update all layers for
  /// one step before any layer for the next step.
  void make(std::span<const int> layers, int64_t step);
  /// Reverts the layer's last update. Needs two versions (net::Net::Options::versions).
  void revert(int layer);

 private:
  void begin(int64_t step);
  bool gradients_come_whole() const;
  void load_sums(int layer);
  GraphKey key_of(std::span<const int> layers, bool whole) const;
  void issue(int layer, bool whole);
  void update_in_pieces(int layer);
  void flip(int layer);

  net::Net& net_;
  Optimizer& optimizer_;
  GradientExchange& exchange_;
  const Schedule& schedule_;
  const SumsInFlight* sums_;
  const int64_t logical_shards_;
  const std::unique_ptr<GraphCapture> graph_capture_;
  std::optional<UpdateStep> step_;  ///< values common to all updates of the newest step
};

}  // namespace poseidon::trainer
