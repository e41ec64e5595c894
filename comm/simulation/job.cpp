#include "comm/simulation/job.h"

#include <algorithm>

#include "comm/server_shard.h"
#include "comm/simulation/model.h"
#include "comm/slices.h"
#include "comm/step_versions.h"
#include "comm/worker_exchange.h"
#include "core/digest.h"
#include "core/error.h"

namespace poseidon::comm {

using namespace std::chrono_literals;

namespace {

std::string address_of(NodeId node) {
  return text(node.role == Role::kWorker ? "w" : node.role == Role::kServer ? "s" : "c", node.rank);
}

Time milliseconds(double ms) { return Time(static_cast<int64_t>(ms * 1e6)); }

/// What all nodes of a simulated job know.
struct World {
  const SimulatedJobOptions& options;
  SimulatedNetwork& network;
  ComputeModel model;
  SimulatedJobResult& result;
  bool checkpoints_allowed = true;
};

/// A worker whose computation takes time and makes up numbers.
class SimulatedWorker final : public MemberHost, public ExchangeMemory {
 public:
  SimulatedWorker(World& world, NodeId id, int node);

  Member& member() { return member_; }
  bool over() const { return over_; }
  int64_t complete_steps() const { return static_cast<int64_t>(versions_.complete_steps()); }
  uint32_t digest() const { return ComputeModel::digest(replica_); }
  const std::optional<Loss>& loss() const { return loss_; }
  const WorkerExchange* exchange() const { return exchange_.get(); }

  void welcomed(uint16_t rank, const Json&) override;
  void refused(const std::string&) override { over_ = true; }
  void planned(const Planned& planned) override;
  void started(uint64_t first_step) override;
  Placement place(NodeId from, const FrameHeader& header) override {
    return exchange_->place(from, header);
  }
  void received(NodeId from, const FrameHeader& header) override {
    exchange_->received(from, header);
  }
  void forgotten(NodeId) override {}
  void noted(const Note&) override {}
  int64_t offer_halt() override;
  void halt(int64_t step) override;
  void concluded() override {}
  std::string awaiting(NodeId node) override { return exchange_ ? exchange_->awaiting(node) : ""; }
  int64_t step_under_way() override { return static_cast<int64_t>(step_) + 1; }
  void failed(const Loss& loss, bool alone) override;
  void save(int64_t step) override;
  void dismissed() override { over_ = true; }

 private:
  std::span<float> sum(uint32_t layer, uint32_t tensor, uint64_t step) override {
    return sums_of(step)[layer][tensor];
  }
  std::span<float> factors(uint32_t layer, uint32_t which, uint64_t step) override {
    std::vector<std::vector<float>>& of_steps = factors_[layer][which];
    return of_steps[step % of_steps.size()];
  }
  Replica& sums_of(uint64_t step) { return sums_[step % sums_.size()]; }

  uint64_t staleness() const { return static_cast<uint64_t>(world_.options.plan.staleness); }
  size_t layers() const { return world_.options.plan.layers.size(); }
  bool by_factors(uint32_t layer) const {
    return world_.options.plan.layers[layer].scheme == Scheme::kSfb;
  }
  void make_memory();
  Time compute_time(uint32_t layer, bool forward);
  void begin_step();
  void forward(uint32_t layer);
  void backward(uint32_t layer);
  void contribute(uint32_t layer, bool statistics);
  void contribute_own_factors(uint32_t layer);
  void end_of_step();
  void sync();
  bool all_arrived() const;
  void arrived(uint64_t step, uint32_t layer);
  bool bring(uint32_t layer, uint64_t steps);
  void bring_all(uint64_t steps);
  void update(uint32_t layer);
  void revert_incomplete();
  void after(Time wait, std::function<void()> action);

  World& world_;
  const int node_;
  Member member_;
  std::unique_ptr<WorkerExchange> exchange_;
  StepVersions versions_;
  Replica replica_, other_;    ///< current values, and those of the step before or after
  std::vector<Replica> sums_;  ///< of the steps in flight
  std::vector<std::vector<Replica>> parts_;  ///< of the same, by own part, when there are several
  /// By layer, which of the factors, step modulo steps_of_factors().
  std::vector<std::array<std::vector<std::vector<float>>, 2>> factors_;
  uint64_t step_ = 0;  ///< under way
  int64_t limit_ = 0;  ///< steps that may be begun
  int64_t last_step_ = 0;
  std::optional<uint32_t> gate_;  ///< the layer whose forward pass waits
  bool computing_ = false;        ///< a step has begun, and its backward pass is not over
  bool syncing_ = false;          ///< waits for all updates, to compare
  bool failed_ = false, over_ = false;
  std::optional<Loss> loss_;
  uint64_t random_;
};

SimulatedWorker::SimulatedWorker(World& world, NodeId id, int node)
    : world_(world),
      node_(node),
      member_({.role = id.role,
               .wanted_rank = id.rank,
               .coordinator = address_of({}),
               .address = address_of(id),
               .facts = {{"build", "simulated"}},
               .join_timeout = 30s,
               .carries_payload = world.options.carries_payload},
              world.network.transport(node), *this),
      versions_(world.options.plan.layers.size(), 0),
      limit_(world.options.steps),
      last_step_(world.options.steps),
      random_(world.options.seed * 31 + id.rank) {}

void SimulatedWorker::after(Time wait, std::function<void()> action) {
  world_.network.after(node_, wait, [this, action = std::move(action)] {
    if (!failed_ && !over_) action();
  });
}

void SimulatedWorker::welcomed(uint16_t, const Json&) {
  after(1ms, [this] { member_.prepared({{"data", "made up"}}); });
}

void SimulatedWorker::planned(const Planned& planned) {
  exchange_ = std::make_unique<WorkerExchange>(
      world_.options.plan, member_.rank(),
      WorkerExchange::Options{.view = static_cast<uint32_t>(planned.view),
                              .carries_payload = world_.options.carries_payload,
                              .first_in_first_out = world_.options.first_in_first_out},
      *this, member_, [this](uint64_t step, uint32_t layer) { arrived(step, layer); });
  if (world_.options.carries_payload) make_memory();
  const bool meets_workers =
      std::any_of(world_.options.plan.layers.begin(), world_.options.plan.layers.end(),
                  [](const LayerPlan& layer) { return layer.scheme == Scheme::kSfb; });
  const Time preparation = member_.rank() == 0 ? world_.options.preparation : 1ms;
  after(preparation, [this, meets_workers] { member_.ready({digest()}, meets_workers); });
}

void SimulatedWorker::make_memory() {
  const Plan& plan = world_.options.plan;
  replica_ = other_ = world_.model.first_values();
  sums_.assign(staleness() + 1, replica_);
  if (exchange_->parts().size() > 1)
    parts_.assign(staleness() + 1, std::vector<Replica>(exchange_->parts().size(), replica_));
  factors_.resize(layers());
  for (uint32_t layer = 0; layer < layers(); ++layer) {
    const LayerTraffic& traffic = plan.layers[layer].traffic;
    if (!by_factors(layer)) continue;
    for (uint32_t which : {kDeltas, kActivations}) {
      const int64_t width = which == kDeltas ? traffic.rows : traffic.columns;
      factors_[layer][which].assign(
          steps_of_factors(plan),
          std::vector<float>(static_cast<size_t>(plan.global_batch * width)));
    }
  }
}

void SimulatedWorker::started(uint64_t) { begin_step(); }

Time SimulatedWorker::compute_time(uint32_t layer, bool forward) {
  const SimulatedJobOptions& options = world_.options;
  Time time = forward ? options.forward : options.backward;
  if (!options.times.empty())
    time =
        milliseconds(forward ? options.times[layer].forward_ms : options.times[layer].backward_ms);
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  const double more = options.compute_jitter * static_cast<double>(random_ >> 40) * 0x1p-24;
  return time + Time(static_cast<int64_t>(more * static_cast<double>(time.count())));
}

void SimulatedWorker::begin_step() {
  if (static_cast<int64_t>(step_) >= limit_) return;  // halt() goes on
  if (world_.options.stalls == std::pair(member_.rank(), step_)) return;
  computing_ = true;
  forward(0);
}

void SimulatedWorker::forward(uint32_t layer) {
  if (layer == layers()) {
    for (uint32_t each = 0; each < layers(); ++each) contribute(each, true);
    return backward(static_cast<uint32_t>(layers()));
  }
  if (!bring(layer, step_ - std::min(step_, staleness()))) {
    gate_ = layer;
    return;
  }
  after(compute_time(layer, true), [this, layer] { forward(layer + 1); });
}

void SimulatedWorker::backward(uint32_t layer) {
  if (layer == 0) return end_of_step();
  after(compute_time(layer - 1, false), [this, layer] {
    contribute(layer - 1, false);
    backward(layer - 1);
  });
}

void SimulatedWorker::contribute(uint32_t layer, bool statistics) {
  const LayerPlan& plan = world_.options.plan.layers[layer];
  if (plan.scheme == Scheme::kSfb) {
    if (!statistics) contribute_own_factors(layer);
    return;
  }
  const std::vector<Part>& parts = exchange_->parts();
  for (uint32_t tensor = 0; tensor < plan.traffic.tensors.size(); ++tensor) {
    if (plan.traffic.tensors[tensor].statistic != statistics) continue;
    for (size_t i = 0; i < parts.size(); ++i) {
      std::span<float> values;
      if (world_.options.carries_payload) {
        values = parts.size() == 1 ? sums_of(step_)[layer][tensor]
                                   : parts_[step_ % parts_.size()][i][layer][tensor];
        world_.model.gradient(step_, layer, tensor, parts[i], values);
      }
      exchange_->contribute(step_, layer, tensor, parts[i], values);
    }
  }
}

void SimulatedWorker::contribute_own_factors(uint32_t layer) {
  const Plan& plan = world_.options.plan;
  const Part own = shards_of_worker(static_cast<uint32_t>(plan.logical_shards),
                                    static_cast<uint32_t>(plan.workers), member_.rank());
  for (uint32_t shard = own.first; shard < own.first + own.count; ++shard) {
    if (world_.options.carries_payload) {
      const Part rows = shards_of_worker(static_cast<uint32_t>(plan.global_batch),
                                         static_cast<uint32_t>(plan.logical_shards), shard);
      for (uint32_t which : {kDeltas, kActivations}) {
        const LayerTraffic& traffic = plan.layers[layer].traffic;
        const auto width = static_cast<size_t>(which == kDeltas ? traffic.rows : traffic.columns);
        world_.model.factor(
            step_, layer, which, rows.first,
            factors(layer, which, step_).subspan(rows.first * width, rows.count * width));
      }
    }
    exchange_->contribute_factors(step_, layer, shard);
  }
}

void SimulatedWorker::end_of_step() {
  computing_ = false;
  ++step_;
  if (member_.rank() == 0) world_.result.step_ends.push_back(world_.network.now());
  member_.note({.about = "step", .step = static_cast<int64_t>(step_), .content = Json::object()});
  const auto done = static_cast<int64_t>(step_);
  if (done == last_step_ || done % world_.options.agree_every == 0)
    sync();
  else
    begin_step();
}

bool SimulatedWorker::all_arrived() const {
  for (uint32_t layer = 0; layer < layers(); ++layer)
    if (exchange_->step_of(layer) < step_) return false;
  return true;
}

/// Compares what the next step is computed with, and the sums that come after it; at the end, what
/// all sums make.
void SimulatedWorker::sync() {
  syncing_ = !all_arrived();
  if (syncing_) return;
  const bool last = static_cast<int64_t>(step_) == last_step_;
  bring_all(last ? step_ : step_ - std::min(step_, staleness()));
  Digest compared{.step = static_cast<int64_t>(step_), .values = {digest()}};
  for (uint64_t step = versions_.complete_steps(); step < step_; ++step)
    compared.values.push_back(world_.options.carries_payload ? ComputeModel::digest(sums_of(step))
                                                             : 0);
  member_.digest(compared);
  if (static_cast<int64_t>(step_) == last_step_)
    member_.finished(last_step_);
  else
    begin_step();
}

/// Updates a layer by the sums of its steps up to `steps`; false where they have not come.
bool SimulatedWorker::bring(uint32_t layer, uint64_t steps) {
  while (versions_.steps_of(layer) < steps) {
    if (exchange_->step_of(layer) <= versions_.steps_of(layer)) return false;
    update(layer);
  }
  return true;
}

void SimulatedWorker::bring_all(uint64_t steps) {
  for (uint64_t to = versions_.complete_steps() + 1; to <= steps; ++to)
    for (uint32_t layer = 0; layer < layers(); ++layer)
      check(bring(layer, to), "a sum that has come can be used");
}

void SimulatedWorker::update(uint32_t layer) {
  const uint64_t step = versions_.steps_of(layer);
  if (world_.options.carries_payload) {
    const Replica& sums = sums_of(step);
    for (size_t tensor = 0; tensor < replica_[layer].size(); ++tensor)
      ComputeModel::update(replica_[layer][tensor], sums[layer][tensor], other_[layer][tensor]);
    std::swap(replica_[layer], other_[layer]);
    if (world_.options.drifts == std::pair(member_.rank(), step)) replica_[layer][0][0] += 1;
  }
  versions_.updated(layer);
}

void SimulatedWorker::arrived(uint64_t step, uint32_t layer) {
  if (world_.options.carries_payload && by_factors(layer))
    world_.model.rebuild(layer, factors(layer, kDeltas, step), factors(layer, kActivations, step),
                         sums_of(step)[layer]);
  // A sum that is on time is used at once, one that is late by the plan at its gate.
  if (staleness() == 0) update(layer);
  if (gate_ == layer) {
    gate_.reset();
    after(Time{0}, [this, layer] { forward(layer); });
  }
  if (syncing_ && all_arrived()) after(Time{0}, [this] { sync(); });
}

int64_t SimulatedWorker::offer_halt() {
  const auto begun = static_cast<int64_t>(step_) + (computing_ ? 1 : 0);
  return limit_ = std::min(begun + 1, last_step_);
}

void SimulatedWorker::halt(int64_t step) {
  const bool waits = !computing_ && !syncing_ && static_cast<int64_t>(step_) >= limit_;
  limit_ = last_step_ = step;
  if (!waits || failed_ || over_) return;
  if (static_cast<int64_t>(step_) == last_step_)
    sync();
  else
    begin_step();
}

void SimulatedWorker::revert_incomplete() {
  if (!world_.options.carries_payload) return;
  for (size_t layer : versions_.to_revert()) std::swap(replica_[layer], other_[layer]);
}

void SimulatedWorker::failed(const Loss& loss, bool alone) {
  failed_ = true;
  loss_ = loss;
  world_.network.after(node_, 1ms, [this, alone] {
    revert_incomplete();
    if (over_) return;
    if (!alone) return member_.stopped(complete_steps());
    over_ = true;  // a local child writes its checkpoint here
    member_.leave();
  });
}

void SimulatedWorker::save(int64_t step) {
  for (uint32_t layer = 0; layer < layers(); ++layer)
    for (uint32_t tensor = 0; world_.options.carries_payload && tensor < replica_[layer].size();
         ++tensor) {
      const std::span<const std::byte> bytes = std::as_bytes(std::span(replica_[layer][tensor]));
      for (uint64_t slice = 0; slice < slices_of(bytes.size()); ++slice) {
        const uint64_t length = slice_length(bytes.size(), slice);
        member_.send_to_coordinator({.kind = FrameKind::kTensor,
                                     .view = member_.view(),
                                     .step = static_cast<uint64_t>(step),
                                     .key = layer,
                                     .chunk = tensor,
                                     .offset = slice * kSliceBytes,
                                     .length = length},
                                    {bytes.subspan(slice * kSliceBytes, length), nullptr});
      }
    }
  member_.saved(step);
}

/// A server, whose work is all in its ServerShard.
class SimulatedServer final : public MemberHost {
 public:
  SimulatedServer(World& world, NodeId id, int node)
      : world_(world),
        member_({.role = id.role,
                 .wanted_rank = id.rank,
                 .coordinator = address_of({}),
                 .address = address_of(id),
                 .facts = {{"build", "simulated"}},
                 .join_timeout = 30s,
                 .carries_payload = world.options.carries_payload},
                world.network.transport(node), *this) {}

  Member& member() { return member_; }
  bool over() const { return over_; }
  const ServerShard* shard() const { return shard_.get(); }

  void welcomed(uint16_t, const Json&) override { member_.prepared({}); }
  void refused(const std::string&) override { over_ = true; }
  void planned(const Planned& planned) override {
    shard_ = std::make_unique<ServerShard>(
        world_.options.plan, member_.rank(),
        ServerShard::Options{.view = static_cast<uint32_t>(planned.view),
                             .carries_payload = world_.options.carries_payload},
        member_);
    member_.ready({}, false);
  }
  void started(uint64_t) override {}
  Placement place(NodeId from, const FrameHeader& header) override {
    return shard_->place(from.rank, header);
  }
  void received(NodeId from, const FrameHeader& header) override {
    shard_->received(from.rank, header);
  }
  void forgotten(NodeId from) override {
    if (shard_ != nullptr && from.role == Role::kWorker) shard_->forget(from.rank);
  }
  void noted(const Note&) override {}
  int64_t offer_halt() override { return 0; }
  void halt(int64_t) override {}
  void concluded() override { member_.finished(0); }
  std::string awaiting(NodeId node) override {
    return shard_ == nullptr || node.role != Role::kWorker ? "" : shard_->awaiting(node.rank);
  }
  int64_t step_under_way() override { return 0; }
  void failed(const Loss&, bool alone) override {
    if (!alone) return member_.stopped(0);
    over_ = true;
    member_.leave();
  }
  void save(int64_t) override {}
  void dismissed() override { over_ = true; }

 private:
  World& world_;
  Member member_;
  std::unique_ptr<ServerShard> shard_;
  bool over_ = false;
};

class SimulatedCoordinator final : public CoordinatorHost {
 public:
  SimulatedCoordinator(World& world, int node)
      : world_(world),
        coordinator_({.workers = static_cast<uint16_t>(world.options.plan.workers),
                      .servers = static_cast<uint16_t>(world.options.plan.servers),
                      .facts = {{"build", "simulated"}},
                      .timeout = world.options.timeout,
                      .stall_timeout = world.options.stall_timeout,
                      .gather_timeout = 30s},
                     world.network.transport(node), *this) {}

  Coordinator& coordinator() { return coordinator_; }

  Json job() override { return Json::object(); }
  void refused(const std::string&, const std::string&) override {}
  void joined(NodeId, const std::string&) override {}
  bool wants_link() override { return world_.options.measures_link; }
  void measured_link(double mbps, bool) override { world_.result.link_mbps = mbps; }
  Json plan(const std::vector<Fact>&) override { return Json::object(); }
  void started() override {}
  void noted(NodeId, const Note&) override {}
  void agreed(int64_t step) override { world_.result.agreed[step] = 0; }
  std::string tensor_name(size_t) override { return "all values"; }
  Placement place(uint16_t, const FrameHeader& header) override {
    if (replica_.empty()) replica_ = world_.model.first_values();
    if (header.kind != FrameKind::kTensor || header.key >= replica_.size() ||
        header.chunk >= replica_[header.key].size())
      return Placement::refused("sent a tensor that the job has not");
    const auto memory = std::as_writable_bytes(std::span(replica_[header.key][header.chunk]));
    if (!is_slice_of(header, memory.size())) return Placement::refused("sent a torn tensor");
    return Placement::into(memory.subspan(header.offset, header.length));
  }
  void received(uint16_t, const FrameHeader&) override {}
  void failed(const Loss&) override {}
  bool wants_checkpoint(int64_t) override { return true; }
  void saved(uint16_t, int64_t) override {
    world_.result.checkpoint_digest = ComputeModel::digest(replica_);
  }
  void slow(NodeId, const std::string& what) override { world_.result.warnings.push_back(what); }
  void ended(const Outcome& outcome) override { world_.result.outcome = outcome; }

 private:
  World& world_;
  Coordinator coordinator_;
  Replica replica_;
};

/// All processes of a job, and the faults that befall them.
class Job {
 public:
  Job(const SimulatedJobOptions& options, SimulatedJobResult& result)
      : options_(options),
        network_(options.network, options.seed),
        world_{options, network_, ComputeModel(options.plan, options.seed), result},
        result_(result) {
    add(NodeId{});
    coordinator_ = std::make_unique<SimulatedCoordinator>(world_, 0);
    network_.attach(0, coordinator_->coordinator());
    for (uint16_t rank = 0; rank < options.plan.workers; ++rank) {
      const int node = add({Role::kWorker, rank});
      workers_.push_back(
          std::make_unique<SimulatedWorker>(world_, NodeId{Role::kWorker, rank}, node));
      network_.attach(node, workers_.back()->member());
    }
    for (uint16_t rank = 0; rank < options.plan.servers; ++rank) {
      const int node = add({Role::kServer, rank});
      servers_.push_back(
          std::make_unique<SimulatedServer>(world_, NodeId{Role::kServer, rank}, node));
      network_.attach(node, servers_.back()->member());
    }
  }

  void run() {
    network_.after(0, Time{0}, [this] { coordinator_->coordinator().begin(); });
    for (auto& worker : workers_)
      network_.after(node_of_.at({Role::kWorker, static_cast<uint16_t>(&worker - workers_.data())}),
                     Time{0}, [&worker] { worker->member().join(); });
    for (auto& server : servers_)
      network_.after(node_of_.at({Role::kServer, static_cast<uint16_t>(&server - servers_.data())}),
                     Time{0}, [&server] { server->member().join(); });
    network_.before_event([this](uint64_t event) { inject(event); });
    network_.run(std::chrono::hours(24));
    report();
  }

 private:
  int add(NodeId id) { return node_of_[id] = network_.add_node(address_of(id)); }

  void inject(uint64_t event) {
    for (const Fault& fault : options_.faults) {
      if (fault.at_event != event) continue;
      const int node = node_of_.at(fault.a);
      switch (fault.kind) {
        case Fault::Kind::kCrash: network_.crash(node); break;
        case Fault::Kind::kCut: network_.cut(node, node_of_.at(fault.b)); break;
        case Fault::Kind::kHalt:
          network_.after(0, Time{0}, [this] { coordinator_->coordinator().halt(); });
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

  /// Somebody who lives while `node` stands still.
  int bystander(NodeId node) { return node == NodeId{} ? node_of_.at({Role::kWorker, 0}) : 0; }

  bool survives(NodeId id) const {
    return network_.is_up(node_of_.at(id)) && !stands_still_.contains(id);
  }

  void note_idle(NodeId id) { result_.idle += (result_.idle.empty() ? "" : ", ") + name_of(id); }

  void report() {
    result_.events = network_.events();
    result_.frames = network_.frames();
    result_.duration = network_.now();
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
    if (!survives({Role::kWorker, rank})) return;
    if (!worker.over()) note_idle({Role::kWorker, rank});
    if (worker.loss()) result_.losses[rank] = *worker.loss();
    if (worker.exchange() == nullptr) return;
    result_.steps[rank] = worker.complete_steps();
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
  World world_;
  SimulatedJobResult& result_;
  std::map<NodeId, int> node_of_;
  std::map<NodeId, bool> stands_still_;
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

uint32_t reference_digest(const Plan& plan, uint64_t seed, int64_t steps) {
  const ComputeModel model(plan, seed);
  Replica replica = model.first_values(), sums = replica;
  const Part everything{0, static_cast<uint32_t>(plan.logical_shards)};
  for (int64_t step = 0; step < steps; ++step)
    for (uint32_t layer = 0; layer < replica.size(); ++layer) {
      if (plan.layers[layer].scheme == Scheme::kSfb) {
        const LayerTraffic& traffic = plan.layers[layer].traffic;
        std::vector<float> deltas(static_cast<size_t>(plan.global_batch * traffic.rows));
        std::vector<float> activations(static_cast<size_t>(plan.global_batch * traffic.columns));
        model.factor(static_cast<uint64_t>(step), layer, 0, 0, deltas);
        model.factor(static_cast<uint64_t>(step), layer, 1, 0, activations);
        model.rebuild(layer, deltas, activations, sums[layer]);
      }
      for (uint32_t tensor = 0; tensor < replica[layer].size(); ++tensor) {
        std::vector<float>& value = replica[layer][tensor];
        if (plan.layers[layer].scheme != Scheme::kSfb)
          model.gradient(static_cast<uint64_t>(step), layer, tensor, everything,
                         sums[layer][tensor]);
        ComputeModel::update(value, sums[layer][tensor], value);
      }
    }
  return ComputeModel::digest(replica);
}

}  // namespace poseidon::comm
