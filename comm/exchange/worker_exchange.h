#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/plan/counters.h"
#include "comm/plan/plan.h"
#include "comm/plan/shard_parts.h"
#include "comm/wire/number_format.h"
#include "comm/wire/outlet.h"
#include "comm/wire/slices.h"

namespace poseidon::comm {

/// Where a worker's sums and factors shall lie; fp32, canonical order. The memory belongs to the
/// compute side, which reads it between a layer's arrival and its next contribution.
class ExchangeMemory {
 public:
  virtual ~ExchangeMemory() = default;
  /// The sum of tensor `tensor` of layer `layer`, as the plan counts them; of as many steps as are
  /// in flight. It may be the memory that was contributed: a sum comes back only after the
  /// contribution has arrived.
  virtual std::span<float> sum(uint32_t layer, uint32_t tensor, uint64_t step) = 0;
  /// The stacked factors of an SFB layer, global batch x (rows or columns), of as many steps as
  /// steps_of_factors() says.
  virtual std::span<float> factors(uint32_t layer, uint32_t which, uint64_t step) = 0;
};

inline constexpr uint32_t kDeltas = 0, kActivations = 1;

/// Steps of which a worker may have factors at once. A peer that gives those of step t has had this
/// worker's of t - 1 - staleness, which were made when those up to t - 2 - 2 staleness were used.
inline size_t steps_of_factors(const Plan& plan) {
  return 2 * static_cast<size_t>(plan.staleness + 1);
}

/// The gradients of one worker: sends parts of sums to the servers and factors to the peers as they
/// become final, takes sums and factors in, and says when all of a layer's are there. Knows nothing
/// of sockets or time; used by the I/O thread.
class WorkerExchange {
 public:
  struct Options {
    uint32_t view = 0;
    bool carries_payload = true;  ///< false: a planning run, frames have lengths only
    uint64_t first_step = 0;
    bool first_in_first_out = false;  ///< no priorities, to compare with
  };
  /// Told when everything that was summed of `layer` in `step` is in place.
  using Arrived = std::function<void(uint64_t step, uint32_t layer)>;

  /// `plan`, `memory` and `outlet` must outlive it.
  WorkerExchange(const Plan& plan, uint32_t rank, const Options& options, ExchangeMemory& memory,
                 Outlet& outlet, Arrived arrived);

  /// What chunks are put together in that are not sent and received where they lie, bytes, of a
  /// worker that contributes `parts` parts.
  static uint64_t staging_bytes(const Plan& plan, size_t parts);

  /// The sum of this worker's shards in `part` of one tensor that goes by the parameter server, or
  /// of the only worker's, which is where ExchangeMemory::sum says. `values` must stay until the
  /// layer has arrived. Steps come in order, as many ahead of the sums as the plan's staleness.
  void contribute(uint64_t step, uint32_t layer, uint32_t tensor, Part part,
                  std::span<const float> values);
  /// This worker's rows of both factors of logical shard `shard`, which lie in their place in
  /// ExchangeMemory::factors.
  void contribute_factors(uint64_t step, uint32_t layer, uint32_t shard);

  /// Sums come from `server`, factors from `worker`.
  Placement place(NodeId from, const FrameHeader& header);
  void received(NodeId from, const FrameHeader& header);

  /// Steps whose sums of `layer` are in place.
  uint64_t step_of(uint32_t layer) const { return layers_[layer].step; }
  /// The parts that this worker contributes.
  const std::vector<Part>& parts() const { return parts_; }
  const TrafficCount& traffic() const { return traffic_; }
  const std::vector<LayerBytes>& bytes_of_layers() const { return bytes_of_layer_; }
  /// What of all layers is awaited from `node`, of that which is needed first: "the sum of
  /// \"conv1\" of step 12 from server 0"; "" when nothing is.
  std::string awaiting(NodeId node) const;

 private:
  /// A chunk in one of the steps in flight.
  struct ChunkStep {
    std::vector<size_t> pieces_due = {};              ///< by own part: not contributed yet
    std::vector<std::vector<std::byte>> staged = {};  ///< by own part, unless direct
    std::vector<std::byte> sum = {};                  ///< the same for what comes back
    SliceSet received = {};
    size_t parts_sent = 0;
  };
  struct ChunkState {
    WireNumber number = WireNumber::kFp32;
    uint64_t bytes = 0;  ///< on the wire
    uint64_t slices = 0;
    bool direct = false;  ///< one piece as it lies in memory: neither put together nor converted
    uint64_t step = 0;    ///< whose sum is awaited
    uint64_t sent = 0;    ///< the first step that this worker has not contributed to in full
    std::vector<ChunkStep> window = {};  ///< from that step on, by step modulo their number
    ChunkStep& at(uint64_t which) { return window[which % window.size()]; }
  };
  /// The factors of one layer that have come, for one step.
  struct FactorStep {
    std::vector<std::array<std::vector<bool>, 2>> slices;  ///< by logical shard, deltas/activations
    uint64_t slices_due = 0;
  };
  struct LayerState {
    uint64_t step = 0;  ///< that is awaited
    size_t pieces = 0;  ///< in all chunks; of the only worker: tensors
    bool by_factors = false;
    std::vector<size_t> pieces_due = {};   ///< of the steps in flight
    std::vector<FactorStep> factors = {};  ///< of more: peers may be ahead
    size_t& due(uint64_t which) { return pieces_due[which % pieces_due.size()]; }
    FactorStep& factors_of(uint64_t which) { return factors[which % factors.size()]; }
    const FactorStep& factors_of(uint64_t which) const { return factors[which % factors.size()]; }
  };
  struct PieceOf {
    uint32_t chunk = 0, piece = 0;
  };

  void index_chunks();
  void index_layers();
  void begin_factors(uint32_t layer, FactorStep& factors) const;
  size_t own_index(Part part) const;
  uint64_t factor_width(uint32_t layer, uint32_t which) const;
  uint64_t factor_bytes(uint32_t layer, uint32_t which, uint32_t shard) const;
  std::span<float> factor_rows(uint32_t layer, uint32_t which, uint32_t shard, uint64_t step) const;
  bool in_flight(uint64_t step, uint64_t awaited) const {
    return step >= awaited && step - awaited <= static_cast<uint64_t>(plan_.staleness);
  }
  void stage(ChunkStep& chunk, size_t own, const PieceOf& piece, std::span<const float> values);
  void send_chunk(uint64_t step, uint32_t chunk, size_t own, std::span<const std::byte> bytes);
  void send_factor(uint64_t step, uint32_t layer, uint32_t which, uint32_t shard);
  void send_slices(NodeId to, FrameHeader header, const Payload& whole, uint64_t bytes);
  std::string fault_of_sum(NodeId from, const FrameHeader& header) const;
  std::string fault_of_factor(NodeId from, const FrameHeader& header) const;
  Placement place_sum(NodeId from, const FrameHeader& header);
  Placement place_factor(NodeId from, const FrameHeader& header);
  void received_sum(const FrameHeader& header);
  void received_factor(NodeId from, const FrameHeader& header);
  void unpack_sum(uint32_t chunk, uint64_t step);
  void finish_chunk_step(uint32_t chunk);
  void finish_piece(uint32_t layer, uint64_t step);
  void finish_if_complete(uint32_t layer);
  std::string awaiting(uint32_t layer, NodeId node) const;
  std::string awaited_factors(uint32_t layer, uint32_t worker) const;
  Priority priority_of(uint32_t key) const;

  const Plan& plan_;
  const uint32_t rank_;
  const Options options_;
  ExchangeMemory& memory_;
  Outlet& outlet_;
  const Arrived arrived_;
  const WireNumber number_;  ///< of factors
  const std::vector<Part> parts_;
  std::vector<IndexRange> rows_;  ///< of each logical shard in the global batch
  std::vector<ChunkState> chunks_;
  std::vector<LayerState> layers_;
  std::vector<std::vector<std::vector<PieceOf>>> pieces_of_;  ///< by layer and tensor
  std::vector<std::vector<std::byte>> wire_;  ///< by worker: a slice of bf16 factors as it came
  TrafficCount traffic_;
  std::vector<LayerBytes> bytes_of_layer_;
};

}  // namespace poseidon::comm
