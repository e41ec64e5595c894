#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/membership/coordinator.h"
#include "comm/membership/member.h"
#include "comm/plan/counters.h"
#include "comm/plan/plan.h"
#include "comm/simulation/network.h"

/// A whole job on a simulated network: the coordinator, the workers' and the servers' real state
/// machines, with a modelled computation in the place of the net.
namespace poseidon::comm {

/// Something that goes wrong at an event.
struct Fault {
  enum class Kind : uint8_t { kCrash, kPause, kCut, kHalt, kLeave, kDeaf, kNarrow };
  Kind kind = Kind::kCrash;
  uint64_t at_event = 0;  ///< counted from the beginning, or from `in`
  /// The first event that finds the coordinator in this state.
  std::optional<Coordinator::State> in = {};
  /// b: the other end of a cut; the node that receives nothing more from `a`; or nothing large
  NodeId a = {}, b = {};
  Time pause_for{0};  ///< of a pause; 0: for ever
};

/// A node that comes while the job runs. Its rank is the next one of its role behind those of the
/// plan, and of the arrivals before it.
struct Arrival {
  Role role = Role::kWorker;
  uint64_t at_event = 0;
  std::optional<NodeId> host_of = {};  ///< the node whose host it is on; none: a host of its own
};

/// What a node computes, or does for the protocol's sake.
enum class Work : uint8_t {
  kPreparing,
  kGiving,  ///< the step that it keeps
  kBuilding,
  kTesting,
  kStopping,
  kSaving,
  kConcluding
};

/// A node whose work never comes to an end, while its protocol goes on.
struct Hang {
  NodeId who;
  Work in = Work::kPreparing;
  bool operator==(const Hang&) const = default;
};

struct SimulatedJobOptions {
  Plan plan;
  NetworkModel network;
  uint64_t seed = 1;
  int64_t steps = 10;
  int64_t agree_every = 4;                        ///< steps between comparisons of digests
  int64_t digest_every = 0;                       ///< between those of some tensors; 0: none
  Time forward = std::chrono::microseconds(200);  ///< of one layer
  Time backward = std::chrono::microseconds(400);
  std::vector<LayerTime> times = {};  ///< by layer, instead of these
  double compute_jitter = 0;          ///< at most this part more, by chance
  Time timeout = std::chrono::seconds(10);
  bool carries_payload = true;  ///< false: a planning run, sizes only
  std::vector<Fault> faults = {};
  /// A worker whose values go wrong in this step, and then its gradients, without its knowing.
  std::optional<std::pair<uint16_t, uint64_t>> drifts = {};
  bool all_drift = false;             ///< and in each later view the worker that has its rank there
  std::vector<int64_t> damaged = {};  ///< steps whose checkpoints cannot be read
  /// A worker that answers but computes no further from this step on.
  std::optional<std::pair<uint16_t, uint64_t>> stalls = {};
  std::vector<Hang> hangs = {};
  int64_t test_batches = 0;                   ///< of the test behind each comparison of digests
  Time test_batch = std::chrono::seconds(1);  ///< of one of them
  Time preparation = std::chrono::milliseconds(1);  ///< of worker 0, from the plan to being ready
  Time stall_timeout = std::chrono::seconds(600);
  bool recovers = false;     ///< the job goes on without members that are lost,
  uint16_t min_workers = 1;  ///< as long as so many workers are left
  Time gather{0};            ///< after which it begins without those who have not come; 0: never
  std::vector<NodeId> absent = {};  ///< those who do not come
  std::vector<Arrival> arrivals = {};
  uint16_t max_workers = 0, max_servers = 0;  ///< of a job that has begun; 0: nobody joins it
  bool measures_link = false;
  std::optional<uint16_t> keeper = {};  ///< a worker that keeps a step which the coordinator lacks
};

/// What came of it.
struct SimulatedJobResult {
  bool ended = false;  ///< the coordinator, or without it every worker, has come to an end
  std::string idle;    ///< who has not: "worker 1, server 0"
  std::optional<Outcome> outcome;        ///< of the coordinator, unless it was lost
  std::map<uint16_t, int64_t> steps;     ///< complete steps by surviving worker
  std::map<uint16_t, uint32_t> digests;  ///< CRC-32C of all values then
  std::map<uint16_t, Loss> losses;       ///< what each surviving worker was told
  std::map<uint16_t, Loss> returned;     ///< what each worker was told that had stood still
  /// Digests of those that the coordinator has written, with the updates of the sums they carry.
  std::map<int64_t, uint32_t> checkpoints;
  std::vector<int64_t> written;        ///< of those, the steps that its queue had written, in order
  std::vector<int64_t> unagreed;       ///< of those, the steps written before all agreed or a loss
  std::map<int64_t, uint32_t> agreed;  ///< digests of steps that all workers agreed on
  std::vector<std::string> warnings;   ///< of the coordinator
  std::vector<NodeId> given_up;        ///< by it, at the end
  uint64_t events = 0, frames = 0;
  uint64_t repeated = 0, outdated = 0;
  Time duration{0};                         ///< until the coordinator's end, or everybody's
  std::vector<Time> step_ends;              ///< of worker 0's backward passes
  std::vector<LayerBytes> bytes_of_layers;  ///< over all nodes, sent plus received
  std::optional<double> link_mbps;          ///< that was measured
  bool began = false;                       ///< the first step
  std::vector<Loss> regrouped;              ///< the losses that the job went on after
  uint32_t view = 1;                        ///< the last that was begun
  std::vector<int64_t> began_after;         ///< steps done before each view behind the first
  size_t joined = 0;                        ///< nodes that the job has got since it began
  size_t admitted_again = 0;                ///< of those, on a host where a worker had drifted
  /// How often the last view that did so summed a logical shard of a layer in a step, by these.
  std::map<std::tuple<uint64_t, uint32_t, uint32_t>, std::pair<uint32_t, uint64_t>> given;
  /// The coordinator's states in the order in which events found it in them, and since when.
  std::vector<std::pair<Coordinator::State, Time>> states;
};

SimulatedJobResult run_job(const SimulatedJobOptions& options);

}  // namespace poseidon::comm
