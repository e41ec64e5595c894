#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"

/// The one plan of a job: which layer goes by which scheme, which chunk lies on which server. A
/// pure function of its request, made by the coordinator, published, stored in plan.json
/// (docs/plan.md).
namespace poseidon::comm {

enum class Scheme : uint8_t { kLocal, kPs, kSfb };

/// When a worker waits for sums: each layer's before its next forward pass; all of them at the end
/// of a step; all of them, and nothing is sent before the backward pass is through.
enum class Overlap : uint8_t { kPriority, kBarrier, kNone };

/// "ps", "barrier": as they stand in files.
std::string name_of(Scheme scheme);
std::string name_of(Overlap overlap);

/// One tensor whose sum over the shards is wanted at each step.
struct TensorTraffic {
  std::string name;
  int64_t elements = 0;
  bool statistic = false;  ///< running statistics: always by PS, sent after the forward pass
  /// Travels as fp32 whatever the wire: statistics, biases, scales and shifts, of which rounding
  /// harms much and saves little. It follows from the network, so files do not hold it.
  bool exact = false;

  /// As files hold them.
  bool operator==(const TensorTraffic& other) const {
    return name == other.name && elements == other.elements && statistic == other.statistic;
  }
};

/// One layer with something to sum, as numbers. In order of the forward pass.
struct LayerTraffic {
  std::string name, type;
  int64_t rows = 0, columns = 0;       ///< of its weight as a matrix: outputs, inputs of one output
  bool linear = false;                 ///< fully connected, and its weight is among the tensors
  std::vector<TensorTraffic> tensors;  ///< of a linear layer: the weight, then the bias, if any
  bool may_use_factors = false;        ///< linear, its weight not shared, one device kind
  std::string forced = {};             ///< "ps" or "sfb" from the network file; "": not forced
};

/// What a layer takes in a step of one worker, measured: for policy "time" and for predictions.
struct LayerTime {
  double forward_ms = 0, backward_ms = 0;
};

struct PlanRequest {
  std::vector<LayerTraffic> layers;
  int64_t workers = 1, servers = 1;
  bool servers_apart = false;  ///< servers on hosts of their own; else server s on that of worker
                               ///< s mod workers
  int64_t logical_shards = 0;  ///< 0: as many as workers
  int64_t global_batch = 1;
  std::string scheme = "auto";   ///< "ps", "sfb", "auto"
  std::string policy = "bytes";  ///< "bytes", "time"
  std::string wire = "fp32";     ///< "fp32", "bf16"
  int64_t chunk_bytes = 2097152;
  Overlap overlap = Overlap::kPriority;
  int64_t staleness = 0;  ///< steps that sums may be late
  // Policy "time" needs these; with them every plan has a prediction.
  double link_mbps = 0;          ///< one direction of a node's link
  std::vector<LayerTime> times;  ///< by layer, with what follows it and has nothing to sum
  LayerTime time_before;         ///< of what comes before the first of `layers`
  double rebuild_gflops = 0;     ///< speed of the rebuild from factors
};

/// A run of elements of one tensor within a chunk.
struct Piece {
  uint32_t layer = 0, tensor = 0;  ///< into Plan::layers and its tensors
  int64_t first = 0, count = 0;    ///< elements, canonical order
  bool operator==(const Piece&) const = default;
};

/// What lies on one server as one: its pieces stand one after another, fp32.
struct Chunk {
  uint32_t server = 0;
  uint32_t key = 0;  ///< the first of its layers in the forward pass: its priority
  std::vector<Piece> pieces;
  int64_t elements() const;
  bool operator==(const Chunk&) const = default;
};

struct LayerPlan {
  LayerTraffic traffic;
  Scheme scheme = Scheme::kPs;
  double ps_bytes = 0;    ///< Algorithm 1, per node, sent plus received, fp32
  double sfb_bytes = -1;  ///< the same; -1 for a layer that is not linear
  double bytes = 0;       ///< what it will really move, averaged over the nodes
};

/// Of sums that are late: each step more holds one more of every sum.
inline constexpr int64_t kMostStaleness = 1024;

struct Plan {
  int64_t workers = 1, servers = 1, logical_shards = 1, global_batch = 1;
  bool servers_apart = false;
  std::string policy = "bytes", wire = "fp32";
  Overlap overlap = Overlap::kPriority;
  /// Step t is computed with the sums of steps up to t - 1 - staleness, so as many steps and one
  /// are in flight.
  int64_t staleness = 0;
  std::vector<LayerPlan> layers;
  std::vector<Chunk> chunks;  ///< in order of key, then of first piece
  double bytes_per_node = 0;
  double hottest_shard_over_mean = 1;
  double link_mbps = 0;          ///< one direction of a node's link; 0: not known
  double predicted_step_ms = 0;  ///< 0: none, times or link are not known
};

/// Decides. Throws ConfigError for what cannot be (a forced "sfb" for a layer without factors).
Plan make_plan(const PlanRequest& request);

/// The plan for `request` with the schemes of an earlier plan for the same layers, maybe for
/// another number of workers; and with its chunks, where the servers are as many. Throws
/// ConfigError where a layer of it goes by factors and cannot here.
Plan follow_plan(const PlanRequest& request, const Plan& earlier);

/// plan.json and back. Reading checks everything, also that the plan is for these layers; values
/// that follow from others are computed anew. Throws ConfigError.
Json to_json(const Plan& plan);
Plan read_plan(const Json& json, const JsonPlace& place, const std::vector<LayerTraffic>& layers);

/// Fills in what follows from schemes and chunks: bytes, balance.
void complete(Plan& plan);

}  // namespace poseidon::comm
