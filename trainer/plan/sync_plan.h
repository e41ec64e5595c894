#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "comm/plan/plan.h"
#include "comm/plan/traffic.h"
#include "net/net.h"
#include "trainer/job/job.h"
#include "trainer/messages/device_note.h"
#include "trainer/state/checkpoint.h"

/// From a job and its network to the numbers that comm makes a plan of.
namespace poseidon::trainer {

/// The layers with something to sum, in order of the forward pass; parameters that do not learn are
/// left out. Tensors have the names they have in the net: "conv1.weight".
std::vector<comm::LayerTraffic> layer_traffic(const net::Network& network);

/// What the job asks for. Without "cluster.servers" there are as many servers as workers. Times
/// and the link are those of the job, if any: comm.link_mbps, under comm.bandwidth_limit_mbps.
comm::PlanRequest plan_request(const Job& job);

/// Adds the times of the layers, told by `file` or by workers, as messages name it. They are scaled
/// to the samples of the worker that has most; an update counts as part of the next forward pass,
/// by the number of a layer's elements. Throws ConfigError.
void add_times(comm::PlanRequest& request, const LayerTimes& timing, const std::string& file);

/// The plan that a run follows: the one of "comm.plan" where the job names one, or that of the run
/// which goes on (unless `replan`); none where it makes a new one. `resumed` may be null. Throws
/// ConfigError.
std::optional<comm::Plan> earlier_plan(const Job& job, const comm::PlanRequest& request,
                                       const Checkpoint* resumed, bool replan);

/// The plan for a request, which may follow another. Throws ConfigError.
comm::Plan sync_plan(const comm::PlanRequest& request, const std::optional<comm::Plan>& earlier);
/// The same for a run that begins anew.
comm::Plan sync_plan(const Job& job, const comm::PlanRequest& request);
/// The plan of a run, where nothing is measured for it. Throws ConfigError.
comm::Plan plan_of(const Job& job, const Checkpoint* resumed, bool replan);

/// The layers that go by sufficient factors.
std::vector<std::string> factored_layers(const comm::Plan& plan);

/// What one process may send, Mb/s, of its node's limit: a worker and a server that are processes
/// of one host have half each, and in one process (`shares_process`) the whole together. 0: no
/// limit.
double bandwidth_share(const JobConfig& config, bool shares_process);

/// plan.json: the plan, the choices and the implementations (implementations_json) of the layers,
/// and the device of each worker.
Json plan_json(const comm::Plan& plan, const net::Choices& choices, const Json& implementations,
               const DeviceNotes& devices);

/// traffic.json: bytes that each layer moved in `steps` steps, over all nodes, beside those
/// planned.
Json traffic_json(const comm::Plan& plan, int64_t steps,
                  const std::vector<comm::NodeBytes>& bytes_of_layers = {});

/// --plan: the plan as JSON. `times` may be empty, unless it is to be simulated: the answer has
/// "simulated_step_ms" then.
Json plan_job(const Job& job, const std::filesystem::path& times, bool simulates = false);

}  // namespace poseidon::trainer
