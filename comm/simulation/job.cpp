#include "comm/simulation/job.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "comm/simulation/coordinator.h"
#include "comm/simulation/server.h"
#include "comm/simulation/worker.h"
#include "comm/simulation/world.h"

namespace poseidon::comm {

namespace {

/// All processes of a job, and the faults injected into them.
class Job {
 public:
  Job(const SimulatedJobOptions& options, SimulatedJobResult& result)
      : options_(options),
        network_(options.network, options.seed),
        world_{options, network_, ComputeModel(options.plan, options.seed), result},
        result_(result) {
    add(NodeId{}, hosts());
    coordinator_ = std::make_unique<SimulatedCoordinator>(world_, 0);
    network_.attach(0, coordinator_->coordinator());
    for (const AssignedWorker& worker : options.plan.assignment.workers())
      add_member(Role::kWorker, worker.host);
    for (const AssignedServer& server : options.plan.assignment.servers())
      add_member(Role::kServer, server.host);
    for (const Arrival& arrival : options.arrivals)
      arriving_.emplace(arrival.at_event, add_member(arrival.role, ++hosts_of_arrivals_ + hosts()));
  }

  void run() {
    network_.after(0, Time{0}, [this] { coordinator_->coordinator().begin(); });
    for (uint16_t rank = 0; rank < options_.plan.workers(); ++rank) begin({Role::kWorker, rank});
    for (uint16_t rank = 0; rank < options_.plan.servers(); ++rank) begin({Role::kServer, rank});
    network_.before_event([this](uint64_t event) {
      for (auto [next, end] = arriving_.equal_range(event); next != end; ++next)
        arrive(next->second);
      inject(event);
    });
    network_.describe_events(options_.on_event);
    network_.run(std::chrono::hours(24));
    report();
  }

 private:
  /// The number of hosts of workers and servers; the coordinator has a separate host.
  uint32_t hosts() const { return static_cast<uint32_t>(options_.plan.assignment.hosts()); }

  int add(NodeId id, uint32_t host) {
    return node_of_[id] = network_.add_node(world_.address_of(id), host);
  }

  NodeId add_member(Role role, uint32_t host) {
    const bool worker = role == Role::kWorker;
    const NodeId id{role, static_cast<uint16_t>(worker ? workers_.size() : servers_.size())};
    const int node = add(id, host);
    if (worker)
      workers_.push_back(std::make_unique<SimulatedWorker>(world_, id, node));
    else
      servers_.push_back(std::make_unique<SimulatedServer>(world_, id, node));
    network_.attach(node, member(id));
    return id;
  }

  void begin(NodeId id) {
    if (std::ranges::find(options_.absent, id) == options_.absent.end()) arrive(id);
  }

  void arrive(NodeId id) {
    has_arrived_.insert(id);
    network_.after(node_of_.at(id), Time{0}, [this, id] { member(id).join(); });
  }

  /// Whether a fault is due at this event.
  bool is_due(const Fault& fault, uint64_t event) {
    if (!fault.in) return fault.at_event == event;
    const auto found = entered_.find(*fault.in);
    return found != entered_.end() && event == found->second + fault.at_event;
  }

  void inject(uint64_t event) {
    const Coordinator::State state = coordinator_->coordinator().state();
    entered_.try_emplace(state, event);
    if (result_.states.empty() || result_.states.back().first != state)
      result_.states.emplace_back(state, network_.now());
    for (const Fault& fault : options_.faults) {
      if (!is_due(fault, event)) continue;
      const int node = node_of_.at(fault.a);
      switch (fault.kind) {
        case Fault::Kind::kCrash: network_.crash(node); break;
        case Fault::Kind::kCut: network_.cut(node, node_of_.at(fault.b)); break;
        case Fault::Kind::kBlocked: network_.block(node, node_of_.at(fault.b)); break;
        case Fault::Kind::kSmallMtu: network_.limit_mtu(node, node_of_.at(fault.b)); break;
        case Fault::Kind::kHalt:
          network_.after(0, Time{0}, [this] { coordinator_->coordinator().halt(); });
          break;
        case Fault::Kind::kLeave:
          network_.after(node, Time{0}, [this, id = fault.a] { member(id).leave("a signal"); });
          break;
        case Fault::Kind::kPause:
          network_.pause(node);
          stands_still_.insert({fault.a, true});
          if (fault.pause_for.count() > 0)
            network_.after(bystander(fault.a), fault.pause_for,
                           [this, node] { network_.resume(node); });
          break;
      }
    }
  }

  Member& member(NodeId id) {
    return id.role == Role::kWorker ? workers_[id.rank]->member() : servers_[id.rank]->member();
  }

  /// A node that runs while `node` is paused.
  int bystander(NodeId node) { return node == NodeId{} ? node_of_.at({Role::kWorker, 0}) : 0; }

  bool survives(NodeId id) const {
    const bool is_there = id == NodeId{} || has_arrived_.contains(id);
    return is_there && network_.is_up(node_of_.at(id)) && !stands_still_.contains(id);
  }

  void note_idle(NodeId id) { result_.idle += (result_.idle.empty() ? "" : ", ") + name_of(id); }

  void report() {
    result_.events = network_.events();
    result_.frames = network_.frames();
    if (!result_.outcome) result_.duration = network_.now();
    if (survives({}) && !result_.outcome) note_idle({});
    result_.bytes_of_layers.resize(options_.plan.layers.size());
    for (uint16_t rank = 0; rank < workers_.size(); ++rank) report_worker(rank, *workers_[rank]);
    for (uint16_t rank = 0; rank < servers_.size(); ++rank) {
      const SimulatedServer& server = *servers_[rank];
      if (server.shard() != nullptr)
        count(server.shard()->traffic(), server.shard()->bytes_of_layers());
      if (survives({Role::kServer, rank}) && !server.over()) note_idle({Role::kServer, rank});
    }
    result_.ended = result_.idle.empty();
  }

  void report_worker(uint16_t rank, const SimulatedWorker& worker) {
    if (worker.exchange() != nullptr)
      count(worker.exchange()->traffic(), worker.exchange()->bytes_of_layers());
    if (stands_still_.contains({Role::kWorker, rank}) && worker.over() && worker.failure())
      result_.returned[rank] = *worker.failure();
    if (!survives({Role::kWorker, rank})) return;
    if (!worker.over()) note_idle({Role::kWorker, rank});
    if (worker.failure()) result_.failures[rank] = *worker.failure();
    if (worker.exchange() == nullptr || !worker.has_values()) return;
    result_.steps[rank] = worker.training().machine().complete();
    result_.digests[rank] = worker.digest();
  }

  void count(const TrafficCount& traffic, const std::vector<LayerBytes>& layers) {
    result_.repeated += traffic.repeated;
    result_.outdated += traffic.outdated;
    for (size_t i = 0; i < layers.size(); ++i) {
      result_.bytes_of_layers[i].sent += layers[i].sent;
      result_.bytes_of_layers[i].received += layers[i].received;
    }
  }

  const SimulatedJobOptions& options_;
  SimulatedNetwork network_;
  SimulatedWorld world_;
  SimulatedJobResult& result_;
  std::map<NodeId, int> node_of_;
  std::map<NodeId, bool> stands_still_;
  std::multimap<uint64_t, NodeId> arriving_;  ///< by event
  std::set<NodeId> has_arrived_;
  uint32_t hosts_of_arrivals_ = 0;
  std::map<Coordinator::State, uint64_t> entered_;  ///< by state: its first event
  std::unique_ptr<SimulatedCoordinator> coordinator_;
  std::vector<std::unique_ptr<SimulatedWorker>> workers_;
  std::vector<std::unique_ptr<SimulatedServer>> servers_;
};

}  // namespace

SimulatedJobResult run_job(const SimulatedJobOptions& options) {
  SimulatedJobResult result;
  Job(options, result).run();
  return result;
}

}  // namespace poseidon::comm
