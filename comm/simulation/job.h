#pragma once

#include <functional>
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

/// A complete job on a simulated network. The state machines of the coordinator, the workers and
/// the servers are the real ones; a modeled computation replaces the net.
namespace poseidon::comm {

/// A fault that is injected at an event.
struct Fault {
  enum class Kind : uint8_t { kCrash, kPause, kCut, kHalt, kLeave, kBlocked, kSmallMtu };
  Kind kind = Kind::kCrash;
  uint64_t at_event = 0;  ///< counted from the start, or from `in`
  /// If set, `at_event` counts from the first event in this state of the coordinator.
  std::optional<Coordinator::State> in = {};
  /// `a` is the node with the fault; unused for kHalt. `b` is the other end for kCut and kSmallMtu.
  /// For kBlocked, `b` is the node that receives nothing more from `a`.
  NodeId a = {}, b = {};
  Time pause_for{0};  ///< duration of a pause; 0: the pause never ends
};

/// A node that arrives while the job runs. Its rank follows the ranks of the plan's nodes of the
/// same role, and of earlier arrivals.
struct Arrival {
  Role role = Role::kWorker;
  uint64_t at_event = 0;
  std::optional<NodeId> host_of = {};  ///< a node with the same host in its address; nullopt: none
};

/// A computation or protocol duty of a node.
enum class Work : uint8_t {
  kPreparing,
  kSendingCheckpoint,  ///< sends its in-memory checkpoint
  kBuilding,
  kTesting,
  kStopping,
  kSaving,
  kConcluding
};

/// A node that hangs in one kind of work, while its protocol (heartbeats, replies) continues.
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
  int64_t agree_every = 4;   ///< steps between comparisons of digests
  int64_t digest_every = 0;  ///< steps between digests of one tensor group; 0: none
  Time forward = std::chrono::microseconds(200);  ///< computing time of one layer
  Time backward = std::chrono::microseconds(400);
  std::vector<LayerTime> times = {};  ///< by layer, instead of `forward` and `backward`
  double compute_jitter = 0;  ///< random extra time; at most this fraction of the computing time
  Time timeout = std::chrono::seconds(10);
  bool carries_payload = true;  ///< false in a planning run, whose frames have only lengths
  std::vector<Fault> faults = {};
  /// (rank, step): a worker whose values become wrong in this step. After this step, its gradients
  /// are wrong too. The worker does not detect the fault.
  std::optional<std::pair<uint16_t, uint64_t>> diverges = {};
  bool all_diverge = false;           ///< `diverges` also applies in every later view
  std::vector<int64_t> damaged = {};  ///< steps whose checkpoints cannot be read
  /// (rank, step): a worker that responds, but stops computing at this step.
  std::optional<std::pair<uint16_t, uint64_t>> stalls = {};
  std::vector<Hang> hangs = {};
  int64_t test_batches = 0;  ///< batches of the test after each comparison of digests
  Time test_batch = std::chrono::seconds(1);        ///< duration of one batch of a test
  Time preparation = std::chrono::milliseconds(1);  ///< time of worker 0 from plan to ready
  Time stall_timeout = std::chrono::seconds(600);
  bool recovers = false;     ///< the job continues without failed members
  uint16_t min_workers = 1;  ///< fewest workers with which the job continues
  Time gather{0};            ///< after this time, the job begins without missing members; 0: never
  std::vector<NodeId> absent = {};  ///< nodes that never arrive
  std::vector<Arrival> arrivals = {};
  uint16_t max_workers = 0, max_servers = 0;  ///< the most members of a running job; 0: no joiners
  bool measures_link = false;
  std::optional<uint16_t> checkpoint_holder =
      {};  ///< a worker with the latest in-memory checkpoint
  std::function<void(const std::string&)> on_event = {};  ///< receives a line about each event
};

/// The result of a simulated job.
struct SimulatedJobResult {
  bool ended = false;  ///< every surviving node has ended
  std::string idle;    ///< the surviving nodes that have not ended: "worker 1, server 0"
  std::optional<Outcome> outcome;        ///< of the coordinator, unless it failed
  std::map<uint16_t, int64_t> steps;     ///< complete steps by surviving worker
  std::map<uint16_t, uint32_t> digests;  ///< CRC-32C of all values after `steps`
  std::map<uint16_t, NodeFailure>
      failures;  ///< the failure that each surviving worker was informed of
  std::map<uint16_t, NodeFailure> returned;  ///< as `failures`, for workers that were paused
  /// Digest of each checkpoint that the coordinator has written, by step. The digest is that of the
  /// values after the updates with the checkpoint's sums in flight.
  std::map<int64_t, uint32_t> checkpoints;
  /// Steps of the checkpoints that CheckpointQueue has written, in order.
  std::vector<int64_t> written;
  /// Steps of the checkpoints that were written with neither agreement nor failure.
  std::vector<int64_t> unagreed;
  std::map<int64_t, uint32_t> agreed;  ///< digests of steps that all workers agreed on
  std::vector<std::string> warnings;   ///< of the coordinator
  std::vector<NodeId> given_up;  ///< members for which the coordinator no longer waited at the end
  uint64_t events = 0, frames = 0;
  uint64_t repeated = 0, outdated = 0;
  Time duration{0};                         ///< until the coordinator's end, or the end of the run
  std::vector<Time> step_ends;              ///< ends of worker 0's backward passes
  std::vector<LayerBytes> bytes_of_layers;  ///< by layer, the sums over all workers and servers
  std::optional<double> link_mbps;          ///< the measured rate
  bool began = false;                       ///< whether the first step has begun
  std::vector<NodeFailure> reconfigurations;  ///< failures and joins after which the job continued
  uint32_t view = 1;                          ///< the last view that has begun
  std::vector<int64_t> began_after;           ///< steps done before each view after the first
  size_t joined = 0;                          ///< nodes that have joined the running job
  size_t admitted_again = 0;                  ///< joiners on a host whose worker had diverged
  /// By (global batch, layer, logical shard): the last view in which a worker contributed the
  /// shard, and the number of its contributions in that view.
  std::map<std::tuple<uint64_t, uint32_t, uint32_t>, std::pair<uint32_t, uint64_t>> given;
  /// The coordinator's states in order, each with the time of the first event in that state.
  std::vector<std::pair<Coordinator::State, Time>> states;
};

SimulatedJobResult run_job(const SimulatedJobOptions& options);

}  // namespace poseidon::comm
