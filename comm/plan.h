#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"

/// The one plan of a job: which layer goes by which scheme, which chunk lies on which server. A
/// pure function of its request, made by the coordinator, published, stored in plan.json.
namespace poseidon::comm {

enum class Scheme : uint8_t { kLocal, kPs, kSfb };

/// One tensor whose sum over the shards is wanted at each step.
struct TensorTraffic {
  std::string name;
  int64_t elements = 0;
  bool statistic = false;  ///< running statistics: always by PS, sent after the forward pass
};

/// One layer with something to sum, as numbers. In order of the forward pass.
struct LayerTraffic {
  std::string name, type;
  int64_t rows = 0, columns = 0;  ///< of a linear layer's weight (outputs, inputs); 0 for others
  std::vector<TensorTraffic> tensors;  ///< of a linear layer: the weight, then the bias, if any
  bool may_use_factors = false;        ///< linear, its parameters not shared, one device kind
  std::string forced;                  ///< "ps" or "sfb" from the network file; "": not forced
};

/// What a layer takes, measured: for policy "time" and for predictions.
struct LayerTime {
  double forward_ms = 0, backward_ms = 0;
};

struct PlanRequest {
  std::vector<LayerTraffic> layers;
  int64_t workers = 1, servers = 1;
  bool servers_apart = false;
  int64_t logical_shards = 1;
  int64_t global_batch = 1;
  std::string scheme = "auto";   ///< "ps", "sfb", "auto"
  std::string policy = "bytes";  ///< "bytes", "time"
  std::string wire = "fp32";     ///< "fp32", "bf16"
  int64_t chunk_bytes = 2097152;
  bool barrier = false;          ///< global-norm clipping or comm.overlap: one wait for all sums
  double link_mbps = 0;          ///< policy "time": one direction of a node's link
  std::vector<LayerTime> times;  ///< policy "time": by layer
  double rebuild_gflops = 0;     ///< policy "time": speed of the rebuild from factors
};

/// A run of elements of one tensor within a chunk.
struct Piece {
  uint32_t layer = 0, tensor = 0;  ///< into Plan::layers and its tensors
  int64_t first = 0, count = 0;    ///< elements, canonical order
};

/// What lies on one server as one: its pieces stand one after another, fp32.
struct Chunk {
  uint32_t server = 0;
  uint32_t key = 0;  ///< the first of its layers in the forward pass: its priority
  std::vector<Piece> pieces;
  int64_t elements() const;
};

struct LayerPlan {
  LayerTraffic traffic;
  Scheme scheme = Scheme::kPs;
  double ps_bytes = 0;    ///< Algorithm 1, per node, sent plus received, fp32
  double sfb_bytes = -1;  ///< the same; -1 where there are no factors
  double bytes = 0;       ///< what it will really move, averaged over the nodes
};

struct Plan {
  int64_t workers = 1, servers = 1, logical_shards = 1, global_batch = 1;
  bool servers_apart = false;
  std::string policy = "bytes", wire = "fp32";
  std::vector<LayerPlan> layers;
  std::vector<Chunk> chunks;  ///< in order of key
  double bytes_per_node = 0;
  double hottest_shard_over_mean = 1;
  double predicted_step_ms = 0;  ///< policy "time"; 0: none
};

/// Decides. Throws ConfigError for what cannot be (a forced "sfb" for a layer without factors).
Plan make_plan(const PlanRequest& request);

/// plan.json and back, docs/... Reading checks that the plan is for these layers. Throws
/// ConfigError.
Json to_json(const Plan& plan);
Plan read_plan(const Json& json, const JsonPlace& place, const std::vector<LayerTraffic>& layers);

}  // namespace poseidon::comm
