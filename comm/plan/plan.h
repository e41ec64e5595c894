#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/plan/assignment.h"
#include "comm/plan/schemes.h"
#include "core/json.h"

/// The plan of a job: each layer's scheme, and each chunk's server. It is a pure function of its
/// request. The coordinator makes it, publishes it, and stores it in plan.json (docs/plan.md). When
/// the members change, next_plan() makes the plan of the next view from it.
namespace poseidon::comm {

/// One tensor whose sum over the shards is needed in each step.
struct TensorTraffic {
  std::string name;
  int64_t elements = 0;
  bool statistic = false;  ///< a running statistic: always by PS, sent after the forward pass
  /// Whether the tensor is sent as fp32 for every wire format: statistics, biases, scales and
  /// shifts, where rounding harms much and saves little. The network determines this value, so
  /// files do not contain it.
  bool exact = false;

  /// Compares the values that files contain.
  bool operator==(const TensorTraffic& other) const {
    return name == other.name && elements == other.elements && statistic == other.statistic;
  }
};

/// The sizes of a layer's factors for one sample.
struct FactorSizes {
  int64_t deltas = 0, activations = 0;  ///< values
  int64_t multiply_adds = 0;            ///< to compute the gradient of the weight from them
};

/// One layer that has something to sum. Lists of layers are in order of the forward pass.
struct LayerTraffic {
  std::string name, type;
  int64_t rows = 0, columns = 0;       ///< its weight as a matrix: outputs x inputs of one output
  bool linear = false;                 ///< fully connected, and its weight is among the tensors
  std::vector<TensorTraffic> tensors;  ///< of a layer with factors: the weight, then the bias
  std::optional<FactorSizes> factors = {};  ///< set if the layer can use factors
  bool is_shared = false;                   ///< several layers of the network use its parameters
  SchemeRule forced = SchemeRule::kAuto;    ///< the rule in the network file
};

/// The measured times of a layer in a step of one worker, for policy "time" and for predictions.
struct LayerTime {
  double forward_ms = 0, backward_ms = 0;
};

struct PlanRequest {
  std::vector<LayerTraffic> layers;
  int64_t workers = 1, servers = 1;
  /// Whether servers have separate hosts. Otherwise server s shares the host of worker s mod
  /// workers.
  bool servers_apart = false;
  int64_t logical_shards = 0;  ///< 0: as many as workers
  int64_t devices = 1;         ///< of each worker; each device needs at least one logical shard
  /// Must match the numbers above; nullopt: shards are assigned as evenly as possible.
  std::optional<Assignment> assignment = {};
  int64_t global_batch = 1;
  SchemeRule scheme = SchemeRule::kAuto;
  Policy policy = Policy::kBytes;
  WireFormat wire = WireFormat::kFp32;
  int64_t chunk_bytes = 2097152;
  Overlap overlap = Overlap::kPriority;
  int64_t staleness = 0;  ///< by how many steps sums may be late
  // Policy::kTime needs the following values. If they are set, every plan has a prediction.
  double link_mbps = 0;  ///< one direction of a node's link
  /// By layer, on the slowest worker. Each time includes the following layers that have nothing to
  /// sum.
  std::vector<LayerTime> times;
  LayerTime time_before;      ///< of the layers before the first of `layers`
  double rebuild_gflops = 0;  ///< speed of the rebuild from factors
  /// Processor time of a node per byte sent or received, divided by the number of compute threads.
  /// It extends the computation. 0: network I/O costs no processor time.
  double processor_ns_per_byte = 0;
};

/// A run of elements of one tensor within a chunk (a segment).
struct Piece {
  uint32_t layer = 0, tensor = 0;  ///< indices into Plan::layers, and into its tensors
  int64_t first = 0, count = 0;    ///< elements, canonical order
  bool operator==(const Piece&) const = default;
};

/// The unit of data that one server sums: its pieces one after another, in fp32.
struct Chunk {
  uint32_t server = 0;
  uint32_t key = 0;  ///< index of its first layer in Plan::layers; the lowest key is sent first
  std::vector<Piece> pieces;
  int64_t elements() const;
  bool operator==(const Chunk&) const = default;
};

/// A layer and its scheme.
struct LayerPlan {
  LayerTraffic traffic;
  Scheme scheme = Scheme::kPs;
  /// The costs that Algorithm 1 of the Poseidon paper compares: bytes per node in a step, sent plus
  /// received, in fp32. -1: the formula does not apply to the layer.
  ByScheme<double> formula_bytes = {};
  double bytes = 0;  ///< predicted traffic of the layer, averaged over the nodes
};

/// The greatest staleness. Each step of staleness needs memory for one more copy of every sum.
inline constexpr int64_t kMaxStaleness = 1024;

struct Plan {
  Assignment assignment;
  int64_t global_batch = 1;
  Policy policy = Policy::kBytes;
  WireFormat wire = WireFormat::kFp32;  ///< of factors, and of tensors that are not `exact`
  Overlap overlap = Overlap::kPriority;
  /// Step t is computed with the sums of the steps up to t - 1 - staleness, so staleness + 1 steps
  /// are in flight.
  int64_t staleness = 0;
  std::vector<LayerPlan> layers;
  std::vector<Chunk> chunks;  ///< in order of key, then of first piece
  double bytes_per_node = 0;
  double hottest_shard_over_mean = 1;
  double link_mbps = 0;              ///< one direction of a node's link; 0: unknown
  double processor_ns_per_byte = 0;  ///< from the request of this plan
  double predicted_step_ms = 0;      ///< 0: times or link are unknown

  int64_t workers() const { return static_cast<int64_t>(assignment.workers().size()); }
  int64_t servers() const { return static_cast<int64_t>(assignment.servers().size()); }
  int64_t logical_shards() const { return assignment.logical_shards(); }
  /// The samples of some logical shards, by their index in the global batch.
  IndexRange rows_of(Part shards) const { return assignment.rows_of(shards, global_batch); }
};

/// The assignment of a request; without one, the most even assignment for its numbers.
Assignment assignment_of(const PlanRequest& request);
/// Whether a plan for `request` that follows `earlier` keeps the assignment of `earlier`. It does
/// if the request has no assignment, the same numbers of workers, servers and logical shards, and
/// the same `servers_apart`. Each worker must also have a logical shard for each of its devices.
bool keeps_assignment(const PlanRequest& request, const Plan& earlier);

/// Makes the plan for a request. Throws ConfigError if LayerTraffic::forced is "sfb" for a layer
/// without factors, or if a measurement for Policy::kTime is missing.
Plan make_plan(const PlanRequest& request);

/// Makes the plan for `request` with the schemes, the policy and the known link values of an
/// earlier plan for the same layers. The number of workers may differ. It keeps the earlier chunks
/// if the number of servers is the same, both plans have several workers, and no chunk would mix
/// wire formats. If keeps_assignment() is true, it keeps the earlier assignment, with new member
/// ids. Throws ConfigError if the layers differ, or if a layer uses factors in the earlier plan and
/// cannot do so here.
Plan follow_plan(const PlanRequest& request, const Plan& earlier);

/// Whether `plan` can continue with this many workers and servers.
bool can_survive(const Plan& plan, size_t workers, size_t servers);
/// Makes the plan of the view after the view of `plan`. Shards are divided again. Layers keep their
/// schemes, except that kLocal replaces kPs for a single worker. Chunks are made again if the
/// number of servers changes, or if one of the two views has a single worker. The new plan has no
/// predicted step time.
Plan next_plan(const Plan& plan, const NextMembers& members, int64_t chunk_bytes);

/// Convert a plan to plan.json and back. Reading checks everything, including that the plan is for
/// these layers. Derived values are computed again. Throws ConfigError if a check fails.
Json to_json(const Plan& plan);
Plan read_plan(const Json& json, const JsonPath& place, const std::vector<LayerTraffic>& layers);

/// Computes the values that follow from schemes and chunks: bytes, balance.
void complete(Plan& plan);

}  // namespace poseidon::comm
