#include "trainer/coordinator/cluster_report.h"
#include "trainer/plan/sync_plan.h"

namespace poseidon::trainer {

namespace {

/// Limit on steps that some, but not all, workers have reported. If a worker stalls, the
/// coordinator considers it failed long before this limit.
constexpr size_t kMostGathered = 1 << 20;

}  // namespace

ClusterReport::ClusterReport(const comm::Plan& plan, const RunDirectory& directory,
                             const Metrics::Options& metrics, Console& console)
    : plan_(plan),
      run_(directory, metrics, console),
      times_(workers(), plan.layers.size()),
      reported_(workers(), metrics.steps_done),
      scalars_(metrics.scalars.count()),
      test_scalars_(metrics.test_scalars.count()),
      bytes_of_layer_(plan.layers.size()) {}

void ClusterReport::begin_view(int64_t first_step) {
  times_ = TimeTable(workers(), plan_.layers.size());
  reported_.assign(workers(), first_step);
  steps_.clear();
  tests_.clear();
  bytes_of_layer_.assign(plan_.layers.size(), {});
  rounded_ = {};
  heard_.clear();
}

template <class Part>
Gathered<Part>& ClusterReport::gathered_of(std::map<int64_t, Gathered<Part>>& all, int64_t step) {
  if (all.size() >= kMostGathered)
    throw ConfigError(
        text("the reports of some workers are ", kMostGathered, " steps ahead of those of others"));
  return all.try_emplace(step, workers()).first->second;
}

/// Throws ConfigError for a wrong number of scalars. Accepts none, because a worker without tested
/// samples reports none.
void ClusterReport::check_scalars(uint16_t worker, const SampleSums& sums, size_t expected) {
  if (!sums.scalars.empty() && sums.scalars.size() != expected)
    throw ConfigError(text("worker ", worker, " reports ", sums.scalars.size(),
                           " layer scalars, expected ", expected));
}

bool ClusterReport::take_step(uint16_t worker, int64_t step, const StepNote& note,
                              int64_t last_step) {
  if (step != reported_[worker] + 1 || step > last_step)
    throw ConfigError(text("worker ", worker, " reports step ", step, ", expected ",
                           reported_[worker] + 1, " of ", last_step));
  reported_[worker] = step;
  for (const SampleSums& shard : note.shards) check_scalars(worker, shard, scalars_);
  WorkerStep part = worker_step(note, step, worker, plan_);
  times_.add(worker, part.report);
  auto& gathered = gathered_of(steps_, step);
  if (!gathered.add(worker, std::move(part))) return false;
  std::vector<WorkerStep> parts;
  for (const auto& each : gathered.parts()) parts.push_back(*each);
  steps_.erase(step);
  run_.trained(join_steps(parts, plan_), step == last_step);
  return true;
}

void ClusterReport::take_test(uint16_t worker, int64_t step, const TestNote& note) {
  for (const SampleSums& part : note.sums.parts) check_scalars(worker, part, test_scalars_);
  check_parts(note.sums, worker, plan_);
  auto& gathered = gathered_of(tests_, step);
  if (!gathered.add(worker, note.sums)) return;
  std::vector<TestSums> workers;
  for (const auto& each : gathered.parts()) workers.push_back(*each);
  tests_.erase(step);
  run_.tested(step, join_tests(workers, plan_));
}

void ClusterReport::take_traffic(comm::NodeId node, const TrafficNote& note) {
  if (note.layers.size() != bytes_of_layer_.size())
    throw ConfigError(text(comm::name_of(node), " reports the bytes of ", note.layers.size(),
                           " layers, expected ", bytes_of_layer_.size()));
  if (!heard_.insert(node).second) return;
  for (size_t i = 0; i < note.layers.size(); ++i) {
    bytes_of_layer_[i].sent += static_cast<int64_t>(note.layers[i].sent);
    bytes_of_layer_[i].received += static_cast<int64_t>(note.layers[i].received);
    rounded_ += note.layers[i].rounded;
  }
}

Json ClusterReport::traffic(int64_t steps) const {
  Json traffic = traffic_json(plan_, steps, bytes_of_layer_);
  if (rounded_.all > 0)
    traffic["int8_blocks"] = {
        {"all", rounded_.all}, {"below", rounded_.below}, {"beyond", rounded_.beyond}};
  Json unheard = Json::array();
  for (const auto& [role, count] :
       {std::pair(comm::Role::kWorker, plan_.workers()), {comm::Role::kServer, plan_.servers()}})
    for (int64_t rank = 0; rank < count; ++rank)
      if (const comm::NodeId node{role, static_cast<uint16_t>(rank)}; !heard_.contains(node))
        unheard.push_back(comm::name_of(node));
  if (!unheard.empty()) traffic["unheard"] = std::move(unheard);
  return traffic;
}

std::string ClusterReport::rounding_warning() const {
  std::string warning;
  if (rounded_.below * 100 > rounded_.all)
    warning = text("values of ", rounded_.below, " of ", counted(rounded_.all, "block"),
                   " of gradients are below its finest step, 2^", comm::kLeastExponent);
  if (rounded_.beyond > 0)
    warning += text(warning.empty() ? "" : ", and ", "values of ", rounded_.beyond, " of ",
                    counted(rounded_.all, "block"), " of gradients are beyond its range");
  if (warning.empty()) return "";
  return text("\"comm.wire\": \"int8\": ", warning, "; expected \"bf16\" or \"fp32\"");
}

Json ClusterReport::summary(const Job& job, RunEnd end, const Json& traffic) const {
  const auto nodes = static_cast<double>(plan_.assignment.hosts());
  end.bytes_sent = traffic["bytes_sent"].get<double>() / nodes;
  end.bytes_received = traffic["bytes_received"].get<double>() / nodes;
  Json summary = run_.summary(job, end);
  summary["time"] = times_.workers(plan_);
  summary["layers"] = layers(traffic);
  return summary;
}

/// By layer: bytes moved by all nodes, planned bytes, and wait time.
Json ClusterReport::layers(const Json& traffic) const {
  Json layers = Json::array();
  for (size_t i = 0; i < plan_.layers.size(); ++i) {
    const Json& layer = traffic["layers"][i];
    layers.push_back(
        {{"name", layer["name"]},
         {"scheme", layer["scheme"]},
         {"bytes", layer["bytes_sent"].get<int64_t>() + layer["bytes_received"].get<int64_t>()},
         {"planned_bytes", layer["planned_bytes"]},
         {"sum_wait_s", times_.layer_wait_s(i)}});
  }
  return layers;
}

}  // namespace poseidon::trainer
