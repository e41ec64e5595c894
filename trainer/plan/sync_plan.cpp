#include "trainer/plan/sync_plan.h"

#include <algorithm>
#include <map>

#include "comm/plan/scheme_table.h"
#include "comm/plan/traffic.h"
#include "core/error.h"
#include "trainer/job/choices.h"
#include "trainer/plan/simulated_step.h"
#include "trainer/plan/wire_advice.h"

namespace poseidon::trainer {

namespace {

/// Whether updates change this parameter, by the same rule as net::Parameter::learned.
bool learns(const net::Node& node, const layers::ParameterSpec& spec) {
  return node.reaches_loss && spec.learning_rate_multiplier != 0;
}

comm::LayerTraffic traffic_of(const net::Node& node) {
  const layers::Definition& definition = *node.definition;
  const std::vector<layers::ParameterSpec> parameters = node.parameters();
  comm::LayerTraffic traffic{.name = definition.name,
                             .type = std::string(definition.type()),
                             .tensors = {},
                             .is_shared = node.shares >= 0 || node.is_shared,
                             .forced = comm::scheme_rule(node.scheme)};
  for (const layers::ParameterSpec& spec : parameters)
    if (learns(node, spec))
      traffic.tensors.push_back({.name = definition.name + "." + spec.name,
                                 .elements = spec.shape.count(),
                                 .exact = spec.shape.rank() < 2});
  for (const layers::StatisticSpec& spec : definition.statistics())
    traffic.tensors.push_back({.name = definition.name + "." + spec.name,
                               .elements = spec.shape.count(),
                               .statistic = true,
                               .exact = true});
  if (parameters.empty()) return traffic;
  traffic.rows = parameters[0].shape[0];
  traffic.columns = parameters[0].shape.count() / traffic.rows;
  if (!learns(node, parameters[0])) return traffic;
  if (const auto shape = node.factors()) {
    traffic.linear = definition.type() == "linear";
    traffic.factors = {.deltas = shape->deltas,
                       .activations = shape->activations,
                       .multiply_adds = shape->multiply_adds};
  }
  return traffic;
}

comm::Overlap overlap_of(const JobConfig& config) {
  if (config.comm.overlap == comm::Overlap::kNone) return comm::Overlap::kNone;
  // Clipping needs the common norm of all gradients, so all sums must arrive before the first
  // update. With staleness, these are sums of an earlier step, and they arrive while later steps
  // are computed. So clipping then needs no barrier.
  const bool clips = config.optimizer.clip_norm > 0 && config.comm.staleness == 0;
  const bool barrier = config.comm.overlap == comm::Overlap::kBarrier || clips;
  return barrier ? comm::Overlap::kBarrier : comm::Overlap::kPriority;
}

double link_of(const CommConfig& config) {
  if (config.bandwidth_limit_mbps <= 0) return config.link_mbps;
  return config.link_mbps <= 0 ? config.bandwidth_limit_mbps
                               : std::min(config.link_mbps, config.bandwidth_limit_mbps);
}

void add(comm::LayerTime& sum, const LayerTimes::Layer& layer, double scale) {
  sum.forward_ms += scale * layer.forward_ms;
  sum.backward_ms += scale * layer.backward_ms;
}

int64_t elements_of(const comm::LayerTraffic& layer) {
  int64_t sum = 0;
  for (const comm::TensorTraffic& tensor : layer.tensors) sum += tensor.elements;
  return sum;
}

/// Samples per step of the worker with the most logical shards; can be fractional.
double most_samples(const comm::PlanRequest& request) {
  const comm::Assignment assignment = comm::assignment_of(request);
  const auto most = static_cast<double>(assignment.shards_of(assignment.fullest_worker()).count);
  return static_cast<double>(request.global_batch) * most /
         static_cast<double>(assignment.logical_shards());
}

/// Divides the time of the update among the layers in proportion to their elements. Adds each
/// layer's time to its next forward pass, which waits for the update.
void add_updates(comm::PlanRequest& request, double update_ms) {
  double all = 0;
  for (const comm::LayerTraffic& layer : request.layers)
    all += static_cast<double>(elements_of(layer));
  for (size_t i = 0; i < request.layers.size(); ++i)
    request.times[i].forward_ms +=
        update_ms * static_cast<double>(elements_of(request.layers[i])) / all;
}

}  // namespace

std::vector<comm::LayerTraffic> layer_traffic(const net::Network& network) {
  std::vector<comm::LayerTraffic> layers;
  for (const net::Node& node : network.nodes())
    if (comm::LayerTraffic traffic = traffic_of(node); !traffic.tensors.empty())
      layers.push_back(std::move(traffic));
  return layers;
}

comm::PlanRequest plan_request(const Job& job) {
  const JobConfig& config = job.config;
  const ClusterConfig& cluster = config.cluster;
  return {.layers = layer_traffic(*job.network),
          .workers = cluster.workers,
          .servers = cluster.servers == 0 ? cluster.workers : cluster.servers,
          .servers_apart = cluster.servers_apart,
          .logical_shards = config.logical_shards(),
          .devices = config.device.count(),
          .global_batch = config.global_batch(),
          .scheme = config.comm.scheme,
          .policy = config.comm.policy,
          .wire = config.comm.wire,
          .chunk_bytes = config.comm.chunk_bytes,
          .overlap = overlap_of(config),
          .staleness = config.comm.staleness,
          .link_mbps = link_of(config.comm),
          .times = {},
          .time_before = {},
          .processor_ns_per_byte = config.comm.processor_ns_per_byte};
}

void add_times(comm::PlanRequest& request, const LayerTimes& timing, const std::string& file) {
  const JsonPath top{file, ""};
  const double scale = most_samples(request) / timing.batch;
  std::map<std::string, size_t> index;
  for (size_t i = 0; i < request.layers.size(); ++i) index[request.layers[i].name] = i;
  request.times.assign(request.layers.size(), {});
  comm::LayerTime* current = &request.time_before;
  for (const LayerTimes::Layer& layer : timing.layers) {
    if (const auto found = index.find(layer.name); found != index.end()) {
      current = &request.times[found->second];
      index.erase(found);
    }
    add(*current, layer, scale);
  }
  if (!index.empty())
    fail_at(top.at("layers"), "the layer \"" + index.begin()->first +
                                  "\" is missing; expected the times of this network");
  add_updates(request, timing.update_ms);
  request.rebuild_gflops = timing.rebuild_gflops();
}

std::optional<comm::Plan> earlier_plan(const Job& job, const comm::PlanRequest& request,
                                       const Checkpoint* resumed, bool replan) {
  const std::string& file = job.config.comm.plan;
  if (!file.empty()) return comm::read_plan(read_json(file), JsonPath{file, ""}, request.layers);
  if (resumed == nullptr || replan || resumed->state().plan.empty()) return std::nullopt;
  return comm::read_plan(resumed->state().plan, {"the checkpoint's plan", ""}, request.layers);
}

comm::Plan sync_plan(const comm::PlanRequest& request, const std::optional<comm::Plan>& earlier) {
  return earlier ? comm::follow_plan(request, *earlier) : comm::make_plan(request);
}

comm::Plan sync_plan(const Job& job, const comm::PlanRequest& request) {
  return sync_plan(request, earlier_plan(job, request, nullptr, false));
}

comm::Plan plan_of(const Job& job, const Checkpoint* resumed, bool replan) {
  const comm::PlanRequest request = plan_request(job);
  return sync_plan(request, earlier_plan(job, request, resumed, replan));
}

std::vector<std::string> factored_layers(const comm::Plan& plan) {
  std::vector<std::string> names;
  for (const comm::LayerPlan& layer : plan.layers)
    if (comm::traits_of(layer.scheme).sends_factors()) names.push_back(layer.traffic.name);
  return names;
}

double bandwidth_share(const JobConfig& config, bool shares_process) {
  const bool whole = shares_process || config.cluster.servers_apart;
  return config.comm.bandwidth_limit_mbps / (whole ? 1 : 2);
}

Json plan_json(const comm::Plan& plan, const net::Choices& choices, const Json& implementations,
               const DeviceNotes& devices) {
  Json json = comm::to_json(plan);
  json["choices"] = choices_json(choices);
  json["implementations"] = implementations;
  json["devices"] = devices_json(devices);
  return json;
}

Json traffic_json(const comm::Plan& plan, int64_t steps,
                  const std::vector<comm::NodeBytes>& bytes_of_layers) {
  Json layers = Json::array();
  int64_t sent = 0, received = 0;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const comm::NodeBytes bytes =
        i < bytes_of_layers.size() ? bytes_of_layers[i] : comm::NodeBytes{};
    const double planned = plan.layers[i].bytes * static_cast<double>(plan.assignment.hosts());
    layers.push_back({{"name", plan.layers[i].traffic.name},
                      {"scheme", comm::name_of(plan.layers[i].scheme)},
                      {"bytes_sent", bytes.sent},
                      {"bytes_received", bytes.received},
                      {"planned_bytes", planned * static_cast<double>(steps)}});
    sent += bytes.sent;
    received += bytes.received;
  }
  return {{"layers", std::move(layers)},
          {"nodes", plan.assignment.hosts()},
          {"steps", steps},
          {"bytes_sent", sent},
          {"bytes_received", received}};
}

Json plan_job(const Job& job, const std::filesystem::path& times, bool simulates) {
  comm::PlanRequest request = plan_request(job);
  if (!times.empty())
    add_times(request, read_layer_times(read_json(times), times.string()), times.string());
  const std::optional<comm::Plan> earlier = earlier_plan(job, request, nullptr, false);
  const comm::Plan plan = sync_plan(request, earlier);
  Json json = comm::to_json(plan);
  comm::add_scheme_table(request, plan, earlier.has_value(), json);
  json["advice"] = wire_advice(request, plan);
  if (simulates) json["simulated_step_ms"] = simulated_step_ms(plan, request);
  return json;
}

}  // namespace poseidon::trainer
