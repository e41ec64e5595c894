#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "net/net.h"
#include "trainer/job/schedule.h"
#include "trainer/step/exchange.h"
#include "trainer/step/optimizer.h"
#include "trainer/step/sums_in_flight.h"

namespace poseidon::trainer {

/// Makes a layer's update: from the sums of a step to the next values of its parameters, optimizer
/// state and running statistics. What an update depends on (learning rate, number of the step) is
/// that of the step whose sums it applies. Used by the compute thread.
class LayerUpdates {
 public:
  /// All must outlive it; `sums`, those that a checkpoint carried, may be null.
  LayerUpdates(net::Net& net, Optimizer& optimizer, GradientExchange& exchange,
               const Schedule& schedule, const SumsInFlight* sums, int64_t logical_shards);

  /// The update of `step`, counted from 0; its sums must have come, with clipping those of all
  /// layers. All layers make that of one step before any makes that of another.
  void make(int layer, int64_t step);
  /// Takes back the layer's last update. Needs two versions (net::Net::Options::versions).
  void take_back(int layer);

 private:
  void begin(int64_t step);
  bool gradients_come_whole() const;
  void load_sums(int layer);
  RepeatKey key_of(int layer, bool whole) const;
  void issue(int layer, bool whole);
  void update_in_pieces(int layer);
  void flip(int layer);

  net::Net& net_;
  Optimizer& optimizer_;
  GradientExchange& exchange_;
  const Schedule& schedule_;
  const SumsInFlight* sums_;
  const int64_t logical_shards_;
  const std::unique_ptr<Repeats> repeats_;
  std::optional<UpdateStep> step_;  ///< what the updates of the newest step have in common
};

}  // namespace poseidon::trainer
