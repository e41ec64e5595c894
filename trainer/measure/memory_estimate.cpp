#include "trainer/measure/memory_estimate.h"

#include <algorithm>
#include <set>

#include "core/counted.h"
#include "core/memory.h"
#include "data/loader.h"
#include "trainer/job/choices.h"
#include "trainer/job/job_numbers.h"
#include "trainer/job/plausibility.h"
#include "trainer/plan/measured_plan.h"
#include "trainer/plan/sync_plan.h"
#include "trainer/state/send_window.h"
#include "trainer/step/cluster_exchange.h"
#include "trainer/step/engine.h"
#include "trainer/step/exchange.h"
#include "trainer/step/optimizer.h"
#include "trainer/step/sums_in_flight.h"

namespace poseidon::trainer {

namespace {

/// Memory of program, libraries and stacks that a process touches only during the run, after this
/// estimate. Measured: 3.5 MB (LeNet) to 7.9 MB (LeNet, one worker of two).
constexpr size_t kTouchedInRun = size_t{5} << 20;

/// Memory of the exchange of the worker that needs the most. A worker's memory depends on its
/// number of partial sums. The worker with the most shards does not always have the most partial
/// sums.
size_t most_bytes_of_exchange(net::Net& net, const comm::Plan& plan, size_t devices) {
  size_t most = 0;
  std::set<size_t> seen;
  for (uint32_t rank = 0; rank < plan.assignment.workers().size(); ++rank)
    if (seen.insert(plan.assignment.parts_of(rank).size()).second)
      most = std::max(most, ClusterExchange::bytes(net, plan, rank, devices));
  return most;
}

/// Memory of gradient sums and factors. It is 0 for a single worker with one device, one shard, no
/// staleness and no layer with factors.
size_t bytes_of_sums(net::Net& net, const comm::Plan& plan, size_t devices) {
  const size_t exchange =
      net.parameters().versions() == 1 && !SingleWorkerExchange::is_needed(plan, devices)
          ? LocalExchange::bytes(net, plan.logical_shards(), plan.staleness)
          : most_bytes_of_exchange(net, plan, devices);
  const size_t in_flight = SumsInFlight(net, 0).bytes_of_step();
  return exchange + devices * static_cast<size_t>(plan.staleness) * in_flight;
}

/// Memory of one net for each of `devices` devices.
net::NetMemory times(size_t devices, net::NetMemory net) {
  for (size_t* part : {&net.parameters, &net.second_version, &net.gradients, &net.statistics,
                       &net.activations, &net.scratch})
    *part *= devices;
  return net;
}

/// Memory of tensor copies for a checkpoint. A single worker copies one tensor at a time. In a job
/// with several workers, one worker sends the tensors. Its copies that are not sent yet have at
/// most kMaxBytesInFlight bytes, but at least one tensor.
size_t bytes_of_copies(const Job& job, net::Net& net) {
  const OptimizerConfig& optimizer = job.config.optimizer;
  const size_t kept = optimizer.state_names().size() + (optimizer.average_decay > 0 ? 1 : 0);
  size_t largest = 0, all = 0;
  for (const net::Parameter& parameter : net.parameters()) {
    const auto bytes = static_cast<size_t>(parameter.spec.shape.count()) * sizeof(float);
    largest = std::max(largest, bytes);
    all += bytes * (1 + (parameter.learned ? kept : 0));
  }
  return net.parameters().versions() == 1 ? largest
                                          : std::max(largest, std::min(all, kMaxBytesInFlight));
}

/// Memory of the loaders' batches. Each device has a loader for training. Only the first device has
/// one for tests.
size_t bytes_of_batches(const Job& job, size_t devices) {
  const Shape& input = job.network->input();
  const size_t ring =
      data::Loader::bytes(input.samples(), input.sample_count() + count_of(job.network->extras()),
                          job.network->label_form() == net::LabelForm::kMixed);
  return ring * (job.config.data.has_test ? devices + 1 : devices);
}

/// The first plan of a run. It is provisional if the final plan needs measurements.
comm::Plan plan_before_run(const Job& job) {
  return MeasuredPlan::wanted(job, nullptr, false) ? MeasuredPlan(job, nullptr, false).provisional()
                                                   : plan_of(job, nullptr, false);
}

MemoryEstimate estimate_in(const Job& job, const comm::Plan& plan, Engine& engine) {
  const size_t devices = job.device().indices.size();
  return {.net = times(devices, engine.net().memory()),
          .optimizer_state = devices * Optimizer::bytes(job.config.optimizer, engine.net()),
          .batches = bytes_of_batches(job, devices),
          .sums = bytes_of_sums(engine.net(), plan, devices),
          .copies = bytes_of_copies(job, engine.net()),
          .process = resident_memory() + kTouchedInRun};
}

}  // namespace

size_t MemoryEstimate::total() const {
  return net.total() + optimizer_state + batches + data + sums + copies + process;
}

Json MemoryEstimate::json() const {
  return {{"parameters", net.parameters},
          {"second_version", net.second_version},
          {"gradients", net.gradients},
          {"statistics", net.statistics},
          {"optimizer_state", optimizer_state},
          {"activations", net.activations},
          {"scratch", net.scratch},
          {"batches", batches},
          {"data", data},
          {"sums", sums},
          {"copies", copies},
          {"process", process},
          {"total_bytes", total()}};
}

MemoryEstimate estimate_memory(const Job& job, const comm::Plan& plan, net::Net::Options options) {
  options.allocates_memory = false;
  SilentLog said_by_the_run_itself;
  Engine engine(job, options, said_by_the_run_itself);
  return estimate_in(job, plan, engine);
}

void warn_of_memory(const Job& job, const MemoryEstimate& estimate, int64_t workers, Log& log) {
  const size_t there = workers == 1 ? estimate.process : 0;
  const size_t wanted = static_cast<size_t>(workers) * estimate.total() - there;
  const size_t available = available_memory("/");
  if (wanted <= available) return;
  log.warning(text(counted(workers, "worker"), " of this run will need about ", bytes_text(wanted),
                   " of memory at the peak, more than the ", bytes_text(available),
                   " available here; --check lists its parts; a smaller ", job.config.batch_key(),
                   " needs less"));
}

Json check_job(const Job& job, bool has_weights, Log& log) {
  const comm::Plan plan = plan_before_run(job);
  Engine engine(job,
                {.choices = choices_of(job),
                 .versions = plan.workers() == 1 ? 1 : 2,
                 .allocates_memory = false,
                 .factored = factored_layers(plan),
                 .factor_rows = plan.global_batch},
                log);
  MemoryEstimate memory = estimate_in(job, plan, engine);
  const KnownData data = inspect_data(job, log);
  memory.data = data.bytes;
  Json result = job.network->summary();
  result["memory"] = memory.json();
  result["implementations"] = implementations_json(engine.net());
  result["warnings"] = doubtful_settings({.job = job, .data = data, .has_weights = has_weights});
  for (const Json& doubt : result["warnings"]) log.warning(doubt.get<std::string>());
  log.info(job_in_numbers(job, data));
  return result;
}

}  // namespace poseidon::trainer
