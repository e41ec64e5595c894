#include "trainer/plan/simulated_step.h"

#include <algorithm>
#include <chrono>

#include "comm/plan/prediction.h"
#include "comm/simulation/job.h"
#include "core/error.h"

namespace poseidon::trainer {

namespace {

/// The first steps fill the pipeline and are not counted. With staleness, further steps can begin
/// before the first sum arrives. They are not counted either.
constexpr int64_t kFirstSteps = 3, kCountedSteps = 4;

/// The compute times of each layer on the node that moves the most bytes. The times of layers
/// before the first layer with sums are added to it.
std::vector<comm::LayerTime> times_of(const comm::Plan& plan, const comm::PlanRequest& request) {
  std::vector<comm::Scheme> schemes;
  for (const comm::LayerPlan& layer : plan.layers) schemes.push_back(layer.scheme);
  comm::LinkLoad most;
  for (const comm::LinkLoad& node : comm::link_loads(plan))
    if (node.computes && node.bytes() >= most.bytes()) most = node;
  const std::vector<comm::LayerStep> steps = comm::computing_of(request, schemes, most);
  std::vector<comm::LayerTime> times;
  for (size_t i = 1; i < steps.size(); ++i) times.push_back({steps[i].forward, steps[i].backward});
  times.front().forward_ms += steps.front().forward;
  times.front().backward_ms += steps.front().backward;
  return times;
}

void check_request(const comm::Plan& plan, const comm::PlanRequest& request) {
  if (plan.workers() == 1)
    throw ConfigError("--simulate: expected several workers, got 1, which sends nothing");
  if (request.times.size() != plan.layers.size())
    throw ConfigError("--simulate: expected --times FILE, the output of --time --json");
  if (request.link_mbps <= 0)
    throw ConfigError("--simulate: expected \"comm.link_mbps\" above 0, got 0");
}

}  // namespace

double simulated_step_ms(const comm::Plan& plan, const comm::PlanRequest& request) {
  check_request(plan, request);
  const int64_t first = kFirstSteps + plan.staleness, steps = first + kCountedSteps;
  const comm::SimulatedJobResult result = comm::run_job(
      {.plan = plan,
       .network = {.bytes_per_second = request.link_mbps * 125e3, .delay = comm::Time{0}},
       .steps = steps,
       .agree_every = steps,
       .times = times_of(plan, request),
       .timeout = std::chrono::hours(1),
       .carries_payload = false,
       .stall_timeout = std::chrono::hours(24)});
  check(result.step_ends.size() == static_cast<size_t>(steps),
        "a simulated job does all its steps");
  const auto counted = result.step_ends.back() - result.step_ends[static_cast<size_t>(first) - 1];
  return std::chrono::duration<double, std::milli>(counted).count() / kCountedSteps;
}

}  // namespace poseidon::trainer
