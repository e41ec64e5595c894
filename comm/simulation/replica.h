#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/exchange/worker_exchange.h"
#include "comm/simulation/model.h"
#include "comm/simulation/world.h"

namespace poseidon::comm {

/// The numbers of a simulated worker: its values in two versions, and the sums and factors of the
/// steps in flight. In a planning run, which carries no payload, there are none, and nothing is
/// done with them.
class SimulatedReplica final : public ExchangeMemory {
 public:
  explicit SimulatedReplica(const SimulatedWorld& world) : world_(world) {}

  /// Takes memory for a worker that contributes these parts, the first time with first values.
  void take_memory(const std::vector<Part>& parts);
  void take_first_values() { restore({.step = 0, .values = world_.model.first_values()}); }
  /// Takes the values of a checkpoint, and the sums in flight behind them.
  void restore(const SimulatedCheckpoint& saved);
  /// Of each tensor, for values that come from another worker.
  std::vector<std::span<std::byte>> memory();

  /// Makes the gradient of a part, by its index among the worker's own, of this global batch.
  std::span<const float> make_gradient(uint64_t step, uint64_t batch, uint32_t layer,
                                       uint32_t tensor, size_t part);
  /// Makes the factors of one logical shard of the batch, in their place among all.
  void make_factors(uint64_t step, uint64_t batch, uint32_t layer, uint32_t shard);
  /// Makes the sum of a layer's gradients from all its factors.
  void rebuild(uint64_t step, uint32_t layer);
  /// Updates a layer by its sums of `step`.
  void update(uint64_t step, size_t layer);
  /// Takes back a layer's last update.
  void revert(size_t layer);
  /// The values of a layer go wrong, and from then on what it computes with them.
  void spoil(size_t layer);

  uint32_t digest() const { return ComputeModel::digest(values_); }
  /// Of all values, and of the sums of the steps from `complete` to `done`, which are in flight.
  std::vector<int64_t> digests(int64_t complete, int64_t done) const;
  /// Of the tensors whose index leaves `turn` when it is divided by kDigestTurns.
  std::vector<int64_t> digests_in_turn(int64_t turn) const;
  /// The values, and the sums of each of these steps.
  std::vector<const Replica*> checkpoint(int64_t complete, int64_t done) const;

  std::span<float> sum(uint32_t layer, uint32_t tensor, uint64_t step) override {
    return sums_of(step)[layer][tensor];
  }
  std::span<float> factors(uint32_t layer, uint32_t which, uint64_t step) override;

 private:
  bool has_payload() const { return world_.options.carries_payload; }
  const Plan& plan() const { return world_.options.plan; }
  size_t width(uint32_t layer, uint32_t which) const;
  Replica& sums_of(uint64_t step) { return sums_[step % sums_.size()]; }
  const Replica& sums_of(uint64_t step) const { return sums_[step % sums_.size()]; }

  const SimulatedWorld& world_;
  std::vector<Part> parts_;
  Replica values_, other_;  ///< current values, and those of the step before or after
  bool spoilt_ = false;
  std::vector<Replica> sums_;                    ///< of the steps in flight
  std::vector<std::vector<Replica>> gradients_;  ///< of these, by own part, when there are several
  /// Those of earlier views: what has left this node may still be read on its way to a lost one.
  std::vector<std::vector<std::vector<Replica>>> earlier_gradients_;
  /// By layer, which of the factors, step modulo steps_of_factors().
  std::vector<std::array<std::vector<std::vector<float>>, 2>> factors_;
};

}  // namespace poseidon::comm
