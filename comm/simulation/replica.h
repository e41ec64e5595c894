#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/exchange/worker_exchange.h"
#include "comm/simulation/model.h"
#include "comm/simulation/world.h"

namespace poseidon::comm {

/// The data of a simulated worker: its values in two versions, and the sums and factors of the
/// steps in flight. A planning run carries no payload: it has no such data, and all functions do
/// nothing.
class SimulatedReplica final : public ExchangeMemory {
 public:
  explicit SimulatedReplica(const SimulatedWorld& world) : world_(world) {}

  /// Allocates memory for a worker that contributes these parts. The first call also sets the
  /// initial values.
  void allocate_memory(const std::vector<Part>& parts);
  void set_initial_values() { restore({.step = 0, .values = world_.model.initial_values()}); }
  /// Restores the values of a checkpoint, and its sums in flight.
  void restore(const SimulatedCheckpoint& saved);
  /// The memory of each tensor, for values from another worker.
  std::vector<std::span<std::byte>> memory();

  /// Makes the gradient of a part of the global batch `batch`. `part` is an index among the
  /// worker's parts.
  std::span<const float> make_gradient(uint64_t step, uint64_t batch, uint32_t layer,
                                       uint32_t tensor, size_t part);
  /// Makes the rounded gradient of one logical shard of the batch; null in a planning run.
  IntegerBlocks make_rounded(uint64_t step, uint64_t batch, uint32_t layer, uint32_t tensor,
                             uint32_t shard);
  /// Makes the factors of one logical shard of the batch, at the shard's position in factors().
  void make_factors(uint64_t step, uint64_t batch, uint32_t layer, uint32_t shard);
  /// Makes the sum of a layer's gradients from all its factors.
  void rebuild(uint64_t step, uint32_t layer);
  /// Updates a layer with its sums of `step`.
  void update(uint64_t step, size_t layer);
  /// Reverts a layer's last update.
  void revert(size_t layer);
  /// Corrupts the values of a layer, and from then on the gradients of this worker.
  void corrupt(size_t layer);

  uint32_t digest() const { return ComputeModel::digest(values_); }
  /// The digest of all values, then the digests of the sums of the steps `complete` to `done` - 1,
  /// which are in flight.
  std::vector<int64_t> digests(int64_t complete, int64_t done) const;
  /// The digests of the tensors whose index modulo kDigestTurns is `turn`.
  std::vector<int64_t> digests_in_turn(int64_t turn) const;
  /// The values, then the sums of the steps `complete` to `done` - 1.
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
  Replica values_, other_;  ///< current values, and the values of the step before or after
  bool corrupted_ = false;
  std::vector<Replica> sums_;  ///< of the steps in flight
  /// By step in flight, and by own part. A worker with one part makes its gradients in sums_
  /// instead.
  std::vector<std::vector<Replica>> gradients_;
  /// Gradients of earlier views: frames in flight to a failed node may still read them.
  std::vector<std::vector<std::vector<Replica>>> earlier_gradients_;
  /// By layer, by factor (kDeltas, kActivations), by step modulo steps_of_factors().
  std::vector<std::array<std::vector<std::vector<float>>, 2>> factors_;
};

}  // namespace poseidon::comm
