#include "tests/simulation/seeds/scenario.h"

#include <algorithm>
#include <random>

#include "comm/membership/states.h"
#include "comm/simulation/model.h"
#include "core/error.h"

namespace poseidon::comm {

using namespace std::chrono_literals;

namespace {

using Random = std::mt19937_64;

int64_t pick(Random& random, int64_t least, int64_t most) {
  return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
}

LayerTraffic convolution(int i, int64_t elements) {
  return {.name = text("conv", i),
          .type = "convolution",
          .tensors = {{text("conv", i, ".weight"), elements, false},
                      {text("conv", i, ".bias"), 8, false}}};
}

/// A convolution whose network file requires factors, or not. They have several positions.
LayerTraffic convolution_with_factors(Random& random, int i) {
  const int64_t rows = pick(random, 1, 6), columns = pick(random, 1, 20);
  const int64_t positions = pick(random, 1, 5);
  LayerTraffic traffic = convolution(i, rows * columns);
  traffic.rows = rows;
  traffic.columns = columns;
  traffic.tensors[1].elements = rows;
  traffic.factors = {.deltas = rows * positions, .activations = columns * positions};
  if (pick(random, 0, 1) == 0) traffic.forced = SchemeRule::kSfb;
  return traffic;
}

LayerTraffic batch_norm(int i) {
  return {
      .name = text("bn", i),
      .type = "batch_norm",
      .tensors = {{text("bn", i, ".scale"), 8, false}, {text("bn", i, ".running_mean"), 8, true}}};
}

LayerTraffic linear(int i, int64_t rows, int64_t columns) {
  return {.name = text("ip", i),
          .type = "linear",
          .rows = rows,
          .columns = columns,
          .linear = true,
          .tensors = {{text("ip", i, ".weight"), rows * columns, false},
                      {text("ip", i, ".bias"), rows, false}},
          .factors = FactorSizes{.deltas = rows, .activations = columns}};
}

Plan small_plan(Random& random) {
  PlanRequest request;
  request.workers = pick(random, 2, 5);
  request.servers = pick(random, 1, 6);
  request.logical_shards = pick(random, request.workers, request.workers + 6);
  request.global_batch = pick(random, request.logical_shards, 2 * request.logical_shards);
  request.scheme = pick(random, 0, 1) == 0 ? SchemeRule::kAuto : SchemeRule::kPs;
  const bool large = pick(random, 0, 15) == 0;  // several chunks of several slices
  request.layers.push_back(convolution(1, large ? 150'000 : pick(random, 10, 400)));
  if (large) request.chunk_bytes = 400'000;
  request.layers.push_back(batch_norm(1));
  request.layers.push_back(convolution(2, pick(random, 10, 400)));
  request.layers.push_back(linear(1, pick(random, 3, 12), pick(random, 3, 30)));
  request.layers.push_back(linear(2, 4, pick(random, 3, 12)));
  request.layers.push_back(convolution_with_factors(random, 3));
  if (pick(random, 0, 1) == 0) request.layers[3].forced = SchemeRule::kSfb;
  request.staleness = pick(random, 0, 2);
  if (pick(random, 0, 2) == 0) request.wire = WireFormat::kInt8;
  for (LayerTraffic& layer : request.layers)
    for (TensorTraffic& tensor : layer.tensors)
      tensor.exact = tensor.statistic || tensor.name.ends_with(".bias");
  return make_plan(request);
}

/// Assigns the same shards in a different way: ranges of any size, in any order.
Assignment any_assignment(Random& random, const Assignment& even) {
  std::vector<AssignedWorker> workers = even.workers();
  std::ranges::shuffle(workers, random);
  uint32_t first = 0, rest = static_cast<uint32_t>(even.logical_shards() - std::ssize(workers));
  for (AssignedWorker& worker : workers) {
    const bool last = &worker == &workers.back();
    const auto more = last ? rest : static_cast<uint32_t>(pick(random, 0, rest));
    worker.shards = {first, 1 + more};
    first += worker.shards.count;
    rest -= more;
  }
  std::ranges::sort(workers, {}, &AssignedWorker::member);
  return {std::move(workers), even.servers()};
}

NodeId any_node(Random& random, const Plan& plan) {
  const int64_t which = pick(random, 0, plan.workers() + plan.servers());
  if (which == 0) return {};
  if (which <= plan.workers()) return {Role::kWorker, static_cast<uint16_t>(which - 1)};
  return {Role::kServer, static_cast<uint16_t>(which - 1 - plan.workers())};
}

Fault any_fault(Random& random, const Plan& plan, uint64_t events) {
  Fault fault{.kind = static_cast<Fault::Kind>(pick(random, 0, 3)),
              .at_event = static_cast<uint64_t>(pick(random, 0, static_cast<int64_t>(events))),
              .a = any_node(random, plan)};
  if (fault.kind == Fault::Kind::kPause && pick(random, 0, 2) == 0)
    fault.pause_for = std::chrono::milliseconds(pick(random, 1, 7000));
  if (fault.kind == Fault::Kind::kCut) {
    // A cut always separates a worker from another node.
    fault.b = {Role::kWorker, static_cast<uint16_t>(pick(random, 0, plan.workers() - 1))};
  }
  return fault;
}

/// A fault that happens in a given state of the coordinator, also in the states that follow a node
/// failure.
Fault fault_in_a_state(Random& random, const Plan& plan) {
  Fault fault = any_fault(random, plan, 30);
  fault.in = static_cast<Coordinator::State>(
      pick(random, 0, static_cast<int64_t>(Coordinator::State::kSaving)));
  return fault;
}

Hang any_hang(Random& random, const Plan& plan) {
  const auto in = static_cast<Work>(pick(random, 0, static_cast<int64_t>(Work::kConcluding)));
  if (in == Work::kConcluding)
    return {{Role::kServer, static_cast<uint16_t>(pick(random, 0, plan.servers() - 1))}, in};
  return {{Role::kWorker, static_cast<uint16_t>(pick(random, 0, plan.workers() - 1))}, in};
}

/// Whether the job must finish in spite of the faults. One pause is shorter than the timeout. Two
/// can exceed it.
bool is_harmless(const SimulatedJobOptions& options) {
  int64_t pauses = 0;
  for (const Fault& fault : options.faults) {
    const bool pause = fault.kind == Fault::Kind::kPause && fault.pause_for.count() > 0;
    if (!pause && fault.kind != Fault::Kind::kHalt) return false;
    pauses += pause ? 1 : 0;
  }
  return pauses <= 1 && std::ranges::all_of(options.hangs, [](const Hang& hang) {
           return hang.in >= Work::kStopping;
         });
}

/// Whether a fault or a hang affects the node.
bool is_struck(const SimulatedJobOptions& options, NodeId node) {
  return std::ranges::any_of(options.faults,
                             [&](const Fault& fault) {
                               if (fault.kind == Fault::Kind::kHalt) return false;
                               return node == fault.a ||
                                      (fault.kind == Fault::Kind::kCut && node == fault.b);
                             }) ||
         std::ranges::any_of(options.hangs, [&](const Hang& hang) { return node == hang.who; });
}

std::string name_of(Fault::Kind kind) {
  constexpr std::array kNames{"crashes",
                              "stands still",
                              "is cut off",
                              "is told to halt",
                              "is asked to leave",
                              "is not heard any more",
                              "sends no large message"};
  return kNames[static_cast<size_t>(kind)];
}

std::string name_of(Work work) {
  constexpr std::array kNames{"preparing", "giving", "building",  "testing",
                              "stopping",  "saving", "concluding"};
  return kNames[static_cast<size_t>(work)];
}

/// Whether the worker hangs when it is told to stop. Such a worker does not return to its last
/// complete step.
bool goes_on_in_a_step(const SimulatedJobOptions& options, uint16_t rank) {
  const Hang hang{{Role::kWorker, rank}, Work::kStopping};
  return std::ranges::find(options.hangs, hang) != options.hangs.end();
}

/// Limit on the time from the first sign of a node failure to the end of the job. For each affected
/// node the job may wait for its timeout, and then for the end of its work.
Time longest_end(const SimulatedJobOptions& options) {
  const auto failed_nodes = static_cast<int64_t>(options.faults.size() + options.hangs.size());
  return options.timeout / 2 + failed_nodes * (options.timeout * 11 / 10 + 6s);
}

Time time_to_end(const SimulatedJobResult& result) {
  using State = Coordinator::State;
  const auto first = std::ranges::find_if(result.states, [](const auto& entry) {
    return entry.first >= State::kSuspecting && entry.first < State::kEnded;
  });
  return first == result.states.end() ? Time{0} : result.duration - first->second;
}

/// Checks the checkpoint after a node failure.
std::string fault_in_checkpoint(const SimulatedJobOptions& options,
                                const SimulatedJobResult& result) {
  int64_t furthest = 0;  // among workers without a fault
  for (const auto& [rank, step] : result.steps)
    if (!is_struck(options, {Role::kWorker, rank})) furthest = std::max(furthest, step);
  if (is_struck(options, {})) furthest = 0;
  const std::optional<int64_t> saved = result.outcome->saved_step;
  if (saved && !result.checkpoints.contains(*saved))
    return text("the checkpoint of step ", *saved, " did not come");
  const int64_t newest = result.checkpoints.empty() ? 0 : result.checkpoints.rbegin()->first;
  if (newest < furthest)
    return text("saved step ", newest, ", but step ", furthest, " was complete somewhere");
  return "";
}

}  // namespace

SimulatedJobOptions scenario(uint64_t seed) {
  Random random(seed);
  SimulatedJobOptions options{.plan = small_plan(random), .network = {}, .seed = seed};
  if (Random apart(~seed); pick(apart, 0, 2) == 0) {
    options.plan.assignment = any_assignment(apart, options.plan.assignment);
    complete(options.plan);
  }
  options.network.jitter = std::chrono::microseconds(pick(random, 0, 2000));
  if (pick(random, 0, 1) == 0) options.network.duplication = 0.1;
  if (pick(random, 0, 2) == 0) options.network.outdated = 0.05;
  if (pick(random, 0, 3) == 0)
    options.network.bytes_per_second = static_cast<double>(pick(random, 1, 100)) * 1e6;
  options.compute_jitter = static_cast<double>(pick(random, 0, 20)) * 0.1;
  options.measures_link =
      seed % 64 == 7;  // rarely: the measurement sends more data than the rest of the job
  if (seed % 8 == 3)
    options.checkpoint_holder = static_cast<uint16_t>(pick(random, 0, options.plan.workers() - 1));
  if (pick(random, 0, 5) == 0) return options;
  options.stall_timeout = 60s;
  const uint64_t events = run_job(options).events;
  options.faults.push_back(any_fault(random, options.plan, events));
  if (pick(random, 0, 1) == 0) options.faults.push_back(fault_in_a_state(random, options.plan));
  if (pick(random, 0, 3) == 0) options.hangs.push_back(any_hang(random, options.plan));
  // Without earlier checkpoints, a wrong checkpoint after a node failure is visible.
  if (options.faults.size() > 1 || !options.hangs.empty()) options.agree_every = options.steps;
  options.test_batches = options.hangs.empty() ? 0 : 2;
  options.test_batch = 1ms;
  return options;
}

std::string description(const SimulatedJobOptions& options) {
  std::string out = text("seed ", options.seed, ": ", options.plan.workers(), " workers, ",
                         options.plan.servers(), " servers, ", options.plan.logical_shards(),
                         " logical shards, staleness ", options.plan.staleness, ", wire ",
                         comm::name_of(options.plan.wire));
  if (options.measures_link) out += ", the link is measured";
  if (options.checkpoint_holder)
    out += text(", worker ", *options.checkpoint_holder, " keeps a step");
  for (const Arrival& arrival : options.arrivals)
    out += text("; at event ", arrival.at_event, " a ",
                arrival.role == Role::kWorker ? "worker" : "server", " comes",
                arrival.host_of ? " from the host of " + name_of(*arrival.host_of) : "");
  for (const int64_t step : options.damaged) out += text("; checkpoint ", step, " is damaged");
  for (const Fault& fault : options.faults) {
    out += text("; at event ", fault.at_event);
    if (fault.in) out += text(" of ", kCoordinatorStates[static_cast<size_t>(*fault.in)].state);
    out += text(" ", comm::name_of(fault.a), " ", name_of(fault.kind));
    if (fault.kind == Fault::Kind::kCut) out += " from " + comm::name_of(fault.b);
    if (fault.kind == Fault::Kind::kSmallMtu) out += " to " + comm::name_of(fault.b);
    if (fault.kind == Fault::Kind::kBlocked) out += " by " + comm::name_of(fault.b);
    if (fault.pause_for.count() > 0)
      out += text(" for ", std::chrono::duration<double>(fault.pause_for).count(), " s");
  }
  if (options.diverges)
    out += text("; worker ", options.diverges->first, " drifts in step ",
                options.diverges->second + 1, ", digests every ", options.digest_every, " steps");
  for (const Hang& hang : options.hangs)
    out += text("; ", comm::name_of(hang.who), " hangs when it is ", name_of(hang.in));
  return out;
}

bool halts_before_first_step(const SimulatedJobOptions& options, const SimulatedJobResult& result) {
  const bool halts = std::ranges::any_of(
      options.faults, [](const Fault& fault) { return fault.kind == Fault::Kind::kHalt; });
  return halts && result.step_ends.empty() && result.outcome &&
         result.outcome->failure.why == "stopped before the first step";
}

std::string fault_in(const SimulatedJobOptions& options, const SimulatedJobResult& result) {
  if (!result.ended) return "idle for ever: " + result.idle;
  for (const auto& [rank, step] : result.steps)
    if (!goes_on_in_a_step(options, rank) &&
        result.digests.at(rank) != reference_digest(options.plan, options.seed, step))
      return text("worker ", rank, " has other values after ", step, " steps than one alone");
  if (time_to_end(result) > longest_end(options))
    return text("took ", std::chrono::duration<double>(time_to_end(result)).count(), " s to end");
  for (const auto& [step, digest] : result.checkpoints)
    if (digest != reference_digest(options.plan, options.seed, step))
      return text("the checkpoint of step ", step, " is not that of an undisturbed run");
  if (!result.unagreed.empty())
    return text("the checkpoint of step ", result.unagreed[0], " was written before all agreed");
  if (!std::ranges::is_sorted(result.written)) return "checkpoints were written out of order";
  if (result.outcome && result.outcome->finished) {
    for (const auto& [rank, step] : result.steps)
      if (!is_struck(options, {Role::kWorker, rank}) && step != result.steps.begin()->second)
        return "finished with different numbers of steps";
    return "";
  }
  if (halts_before_first_step(options, result)) return "";
  if (is_harmless(options))
    return "did not finish: " + (result.outcome ? result.outcome->failure.message() : "no outcome");
  // Before the first step no result can be lost, so the error may name any node.
  if (result.step_ends.empty()) return "";
  for (const auto& [rank, failure] : result.failures)
    if (!is_struck(options, failure.who))
      return text("worker ", rank, " names the wrong node: ", failure.message());
  if (!result.outcome) return "";
  if (!is_struck(options, result.outcome->failure.who))
    return "the coordinator names the wrong node: " + result.outcome->failure.message();
  return fault_in_checkpoint(options, result);
}

}  // namespace poseidon::comm
