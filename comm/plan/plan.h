#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/plan/assignment.h"
#include "comm/plan/schemes.h"
#include "core/json.h"

/// The one plan of a job: which layer goes by which scheme, which chunk lies on which server. A
/// pure function of its request, made by the coordinator, published, stored in plan.json
/// (docs/plan.md).
namespace poseidon::comm {

/// One tensor whose sum over the shards is wanted at each step.
struct TensorTraffic {
  std::string name;
  int64_t elements = 0;
  bool statistic = false;  ///< a running statistic: always by PS, sent after the forward pass
  /// Whether it travels as fp32 whatever the wire: statistics, biases, scales and shifts, whose
  /// rounding harms much and saves little. It follows from the network, so files do not hold it.
  bool exact = false;

  /// Compares what files hold.
  bool operator==(const TensorTraffic& other) const {
    return name == other.name && elements == other.elements && statistic == other.statistic;
  }
};

/// One layer with something to sum. Lists of layers are in order of the forward pass.
struct LayerTraffic {
  std::string name, type;
  int64_t rows = 0, columns = 0;  ///< its weight as a matrix: outputs x inputs of one output
  bool linear = false;            ///< it is fully connected, and its weight is among the tensors
  std::vector<TensorTraffic> tensors;  ///< for a linear layer the weight, then the bias, if any
  bool may_use_factors = false;        ///< linear, with an unshared weight and one kind of device
  bool is_shared = false;              ///< several layers of the network use its parameters
  SchemeRule forced = SchemeRule::kAuto;  ///< what the network file asks for
};

/// The reason why a layer without may_use_factors cannot be summed by factors, for a message.
std::string factors_fault(const LayerTraffic& layer);

/// The measured times of a layer in a step of one worker, for policy "time" and for predictions.
struct LayerTime {
  double forward_ms = 0, backward_ms = 0;
};

struct PlanRequest {
  std::vector<LayerTraffic> layers;
  int64_t workers = 1, servers = 1;
  /// Whether servers have hosts of their own; else server s is on that of worker s mod workers.
  bool servers_apart = false;
  int64_t logical_shards = 0;  ///< 0: as many as workers
  int64_t devices = 1;         ///< of each worker; each needs at least one logical shard
  /// Who holds which shards, for these numbers; none: as evenly as can be.
  std::optional<Assignment> assignment = {};
  int64_t global_batch = 1;
  SchemeRule scheme = SchemeRule::kAuto;
  Policy policy = Policy::kBytes;
  DataType wire = DataType::kFp32;
  int64_t chunk_bytes = 2097152;
  Overlap overlap = Overlap::kPriority;
  int64_t staleness = 0;  ///< by how many steps sums may be late
  // Policy::kTime needs these; with them every plan has a prediction.
  double link_mbps = 0;  ///< one direction of a node's link
  /// By layer, of the worker that all wait for; includes following layers without anything to sum.
  std::vector<LayerTime> times;
  LayerTime time_before;      ///< of the layers before the first of `layers`
  double rebuild_gflops = 0;  ///< speed of the rebuild from factors
  /// Processor time that a byte costs a node, sent or received, over the threads that compute: by
  /// so much computing takes longer. 0: bytes cost none.
  double processor_ns_per_byte = 0;
};

/// A run of elements of one tensor within a chunk.
struct Piece {
  uint32_t layer = 0, tensor = 0;  ///< indices into Plan::layers, and into the tensors of that
  int64_t first = 0, count = 0;    ///< elements, canonical order
  bool operator==(const Piece&) const = default;
};

/// A unit that lies on one server: its pieces one after another, in fp32.
struct Chunk {
  uint32_t server = 0;
  uint32_t key = 0;  ///< index of its first layer in the forward pass: its priority
  std::vector<Piece> pieces;
  int64_t elements() const;
  bool operator==(const Chunk&) const = default;
};

struct LayerPlan {
  LayerTraffic traffic;
  Scheme scheme = Scheme::kPs;
  double ps_bytes = 0;    ///< by Algorithm 1: per node, sent plus received, in fp32
  double sfb_bytes = -1;  ///< likewise by factors; -1 for a layer that is not linear
  double bytes = 0;       ///< the bytes that it will move, averaged over the nodes
};

/// The greatest staleness: each further step holds one more of every sum.
inline constexpr int64_t kMostStaleness = 1024;

struct Plan {
  Assignment assignment;
  int64_t global_batch = 1;
  Policy policy = Policy::kBytes;
  DataType wire = DataType::kFp32;  ///< of gradients of weights and factors
  Overlap overlap = Overlap::kPriority;
  /// Step t is computed with the sums of the steps up to t - 1 - staleness, so staleness + 1 steps
  /// are in flight.
  int64_t staleness = 0;
  std::vector<LayerPlan> layers;
  std::vector<Chunk> chunks;  ///< in order of key, then of first piece
  double bytes_per_node = 0;
  double hottest_shard_over_mean = 1;
  double link_mbps = 0;              ///< one direction of a node's link; 0 if it is not known
  double processor_ns_per_byte = 0;  ///< as in the request that it was made for
  double predicted_step_ms = 0;      ///< 0 if times or link are not known

  int64_t workers() const { return static_cast<int64_t>(assignment.workers().size()); }
  int64_t servers() const { return static_cast<int64_t>(assignment.servers().size()); }
  int64_t logical_shards() const { return assignment.logical_shards(); }
  /// The samples of some logical shards, by their index in the global batch.
  IndexRange rows_of(Part shards) const { return assignment.rows_of(shards, global_batch); }
};

/// The assignment of a request, or one for its numbers that is as even as it can be.
Assignment assignment_of(const PlanRequest& request);
/// Whether a plan for `request` that follows `earlier` keeps its assignment. The request must have
/// no assignment, and the same numbers of workers, servers, logical shards and hosts. Each worker
/// must have a logical shard for each of its devices.
bool keeps_assignment(const PlanRequest& request, const Plan& earlier);

/// Makes the plan for a request. Throws ConfigError for one that cannot be met (a forced "sfb" for
/// a layer without factors).
Plan make_plan(const PlanRequest& request);

/// Makes the plan for `request` with the schemes of an earlier plan for the same layers, perhaps
/// for another number of workers. It has the earlier chunks if the number of servers is the same,
/// and the earlier assignment as keeps_assignment() says, begun anew. Throws ConfigError if a layer
/// goes by factors in the earlier plan and cannot here.
Plan follow_plan(const PlanRequest& request, const Plan& earlier);

/// Whether `plan` can be followed by so many workers and servers.
bool can_survive(const Plan& plan, size_t workers, size_t servers);
/// Makes the plan of a view that follows the one of `plan`: schemes stay, shards and chunks are
/// dealt anew. How long a step will take is not predicted.
Plan next_plan(const Plan& plan, const NextMembers& members, int64_t chunk_bytes);

/// Convert a plan to plan.json and back. Reading checks everything, also that the plan is for these
/// layers; values that follow from others are computed anew. Throws ConfigError.
Json to_json(const Plan& plan);
Plan read_plan(const Json& json, const JsonPlace& place, const std::vector<LayerTraffic>& layers);

/// Fills in what follows from schemes and chunks: bytes, balance.
void complete(Plan& plan);

}  // namespace poseidon::comm
