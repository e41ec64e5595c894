#include "tests/comm/seeds/scenario.h"

#include <algorithm>
#include <random>

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
          .may_use_factors = true};
}

Plan small_plan(Random& random) {
  PlanRequest request;
  request.workers = pick(random, 2, 5);
  request.servers = pick(random, 1, 6);
  request.logical_shards = pick(random, request.workers, request.workers + 6);
  request.global_batch = pick(random, request.logical_shards, 2 * request.logical_shards);
  request.scheme = pick(random, 0, 1) == 0 ? "auto" : "ps";
  const bool large = pick(random, 0, 15) == 0;  // several chunks of several slices
  request.layers.push_back(convolution(1, large ? 150'000 : pick(random, 10, 400)));
  if (large) request.chunk_bytes = 400'000;
  request.layers.push_back(batch_norm(1));
  request.layers.push_back(convolution(2, pick(random, 10, 400)));
  request.layers.push_back(linear(1, pick(random, 3, 12), pick(random, 3, 30)));
  request.layers.push_back(linear(2, 4, pick(random, 3, 12)));
  if (pick(random, 0, 1) == 0) request.layers[3].forced = "sfb";
  request.staleness = pick(random, 0, 2);
  return make_plan(request);
}

NodeId any_node(Random& random, const Plan& plan) {
  const int64_t which = pick(random, 0, plan.workers + plan.servers);
  if (which == 0) return {};
  if (which <= plan.workers) return {Role::kWorker, static_cast<uint16_t>(which - 1)};
  return {Role::kServer, static_cast<uint16_t>(which - 1 - plan.workers)};
}

Fault any_fault(Random& random, const Plan& plan, uint64_t events) {
  Fault fault{.kind = static_cast<Fault::Kind>(pick(random, 0, 3)),
              .at_event = static_cast<uint64_t>(pick(random, 0, static_cast<int64_t>(events))),
              .a = any_node(random, plan)};
  if (fault.kind == Fault::Kind::kPause && pick(random, 0, 2) == 0)
    fault.pause_for = std::chrono::milliseconds(pick(random, 1, 7000));
  if (fault.kind == Fault::Kind::kCut) {
    // Of all cuts, one that parts a worker from somebody.
    fault.b = {Role::kWorker, static_cast<uint16_t>(pick(random, 0, plan.workers - 1))};
  }
  return fault;
}

bool may_be_lost(const Fault& fault) {
  return fault.kind != Fault::Kind::kHalt &&
         !(fault.kind == Fault::Kind::kPause && fault.pause_for.count() > 0);
}

bool names_rightly(const Fault& fault, NodeId named) {
  return named == fault.a || (fault.kind == Fault::Kind::kCut && named == fault.b);
}

std::string name_of(Fault::Kind kind) {
  constexpr std::array kNames{"crashes", "stands still", "is cut off", "is told to halt"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace

SimulatedJobOptions scenario(uint64_t seed) {
  Random random(seed);
  SimulatedJobOptions options{.plan = small_plan(random), .network = {}, .seed = seed};
  options.network.jitter = std::chrono::microseconds(pick(random, 0, 2000));
  if (pick(random, 0, 1) == 0) options.network.duplication = 0.1;
  if (pick(random, 0, 2) == 0) options.network.outdated = 0.05;
  if (pick(random, 0, 3) == 0)
    options.network.bytes_per_second = static_cast<double>(pick(random, 1, 100)) * 1e6;
  options.compute_jitter = static_cast<double>(pick(random, 0, 20)) * 0.1;
  options.measures_link = seed % 64 == 7;  // few: it moves more than all the rest of the job
  if (pick(random, 0, 5) == 0) return options;
  const uint64_t events = run_job(options).events;
  options.faults.push_back(any_fault(random, options.plan, events));
  return options;
}

std::string description(const SimulatedJobOptions& options) {
  std::string out = text("seed ", options.seed, ": ", options.plan.workers, " workers, ",
                         options.plan.servers, " servers, ", options.plan.logical_shards,
                         " logical shards, staleness ", options.plan.staleness);
  if (options.measures_link) out += ", the link is measured";
  for (const Fault& fault : options.faults) {
    out +=
        text("; at event ", fault.at_event, " ", comm::name_of(fault.a), " ", name_of(fault.kind));
    if (fault.kind == Fault::Kind::kCut) out += " from " + comm::name_of(fault.b);
    if (fault.pause_for.count() > 0)
      out += text(" for ", std::chrono::duration<double>(fault.pause_for).count(), " s");
  }
  return out;
}

std::string fault_in(const SimulatedJobOptions& options, const SimulatedJobResult& result) {
  if (!result.ended) return "idle for ever: " + result.idle;
  for (const auto& [rank, step] : result.steps)
    if (result.digests.at(rank) != reference_digest(options.plan, options.seed, step))
      return text("worker ", rank, " has other values after ", step, " steps than one alone");
  const bool lossless = options.faults.empty() || !may_be_lost(options.faults[0]);
  const bool stopped_early = result.outcome && result.step_ends.empty() &&
                             result.outcome->loss.why == "stopped before the first step";
  if (stopped_early && !options.faults.empty() && options.faults[0].kind == Fault::Kind::kHalt)
    return "";
  if (lossless && (!result.outcome || !result.outcome->finished))
    return "did not finish: " + (result.outcome ? result.outcome->loss.message() : "no outcome");
  if (result.outcome && result.outcome->finished) {
    for (const auto& [rank, step] : result.steps)
      if (step != result.steps.begin()->second) return "finished with different numbers of steps";
    return "";
  }
  const Fault& fault = options.faults[0];
  // Before the first step nobody has anything to lose: any named error will do.
  const bool had_begun = !result.step_ends.empty();
  for (const auto& [rank, loss] : result.losses)
    if (had_begun && !names_rightly(fault, loss.who))
      return text("worker ", rank, " names the wrong node: ", loss.message());
  if (!result.outcome) return "";
  if (had_begun && !names_rightly(fault, result.outcome->loss.who))
    return "the coordinator names the wrong node: " + result.outcome->loss.message();
  if (!result.outcome->saved_step) return had_begun ? "no checkpoint was saved" : "";
  int64_t furthest = 0;
  for (const auto& [rank, step] : result.steps)
    if (result.outcome->loss.who != NodeId{Role::kWorker, rank})
      furthest = std::max(furthest, step);
  if (*result.outcome->saved_step != furthest && !names_rightly(fault, {}))
    return text("saved step ", *result.outcome->saved_step, ", but step ", furthest,
                " was complete somewhere");
  if (result.checkpoint_digest !=
      reference_digest(options.plan, options.seed, *result.outcome->saved_step))
    return text("the checkpoint of step ", *result.outcome->saved_step,
                " is not that of an undisturbed run");
  return "";
}

}  // namespace poseidon::comm
