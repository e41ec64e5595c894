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

/// Converts a job and its network to the input of comm's planner, and makes plans.
namespace poseidon::trainer {

/// The layers with learned parameters or statistics, whose sums the workers exchange, in order of
/// the forward pass. Frozen parameters are omitted. Tensors have their names in the net, such as
/// "conv1.weight".
std::vector<comm::LayerTraffic> layer_traffic(const net::Network& network);

/// The planner's request for a job. If the job does not set "cluster.servers", there are as many
/// servers as workers. The link rate is comm.link_mbps, limited by comm.bandwidth_limit_mbps. If
/// only one of these is set, it is the link rate.
comm::PlanRequest plan_request(const Job& job);

/// Adds layer times to `request`, scaled to the number of samples of the worker with the most
/// samples. The time of the update is divided among the layers in proportion to their elements, and
/// added to the next forward pass. `file` names the source of `timing` in errors. Throws
/// ConfigError if a layer with sums is missing in `timing`.
void add_times(comm::PlanRequest& request, const LayerTimes& timing, const std::string& file);

/// The existing plan that a run follows; nullopt if the run makes a new plan. If the job names a
/// file "comm.plan", returns the plan in this file. Otherwise returns the plan of the checkpoint
/// `resumed`, unless this is null or has no plan, or `replan` is set. Throws ConfigError.
std::optional<comm::Plan> earlier_plan(const Job& job, const comm::PlanRequest& request,
                                       const Checkpoint* resumed, bool replan);

/// Makes the plan for a request. If there is an `earlier` plan, uses its schemes, and its
/// assignment if comm::keeps_assignment() allows it. Throws ConfigError.
comm::Plan sync_plan(const comm::PlanRequest& request, const std::optional<comm::Plan>& earlier);
/// The plan of a run that starts from the beginning. It follows the file "comm.plan" if the job
/// names one. Throws ConfigError.
comm::Plan sync_plan(const Job& job, const comm::PlanRequest& request);
/// The plan of a run that needs no measurements. `resumed` and `replan`: as in earlier_plan().
/// Throws ConfigError.
comm::Plan plan_of(const Job& job, const Checkpoint* resumed, bool replan);

/// Names of the layers whose gradients are summed by sufficient factors (scheme `sfb`).
std::vector<std::string> factored_layers(const comm::Plan& plan);

/// Bandwidth limit of one process, Mb/s; 0: no limit. The job sets the limit of a node. If the node
/// is a worker and a server in separate processes, each gets half of it. A process gets all of it
/// if it has both (`shares_process`), or if servers have separate nodes (cluster.servers_apart).
double bandwidth_share(const JobConfig& config, bool shares_process);

/// Content of plan.json: the plan, the choices and implementations (implementations_json) of the
/// layers, and the device of each worker.
Json plan_json(const comm::Plan& plan, const net::Choices& choices, const Json& implementations,
               const DeviceNotes& devices);

/// Content of traffic.json: by layer, the planned bytes and the bytes that all nodes moved in
/// `steps` steps.
Json traffic_json(const comm::Plan& plan, int64_t steps,
                  const std::vector<comm::NodeBytes>& bytes_of_layers = {});

/// Output of --plan: the plan as JSON. `times` is a file with the output of --time --json. It may
/// be "" unless `simulates`. With `simulates`, the output has "simulated_step_ms".
Json plan_job(const Job& job, const std::filesystem::path& times, bool simulates = false);

}  // namespace poseidon::trainer
