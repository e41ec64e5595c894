#include "trainer/plan/measured_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "core/error.h"
#include "trainer/plan/sync_plan.h"

namespace poseidon::trainer {

namespace {

/// Limit on the workers that the text of the assignment by speed lists.
constexpr size_t kMostNamed = 8;

bool decides_by_time(const Job& job, const std::optional<comm::Plan>& earlier) {
  const CommConfig& comm = job.config.comm;
  return comm.policy == comm::Policy::kTime && comm.scheme == comm::SchemeRule::kAuto &&
         job.config.cluster.workers > 1 && !earlier;
}

bool assigns_by_speed(const Job& job, const comm::PlanRequest& request,
                      const std::optional<comm::Plan>& earlier) {
  const ClusterConfig& cluster = job.config.cluster;
  const bool keeps = earlier && comm::keeps_assignment(request, *earlier);
  return cluster.balance == Balance::kSpeed && cluster.workers > 1 && !keeps;
}

/// Sets each pass of `longest` to the longer one of both times.
void raise(comm::LayerTime& longest, const comm::LayerTime& other) {
  longest.forward_ms = std::max(longest.forward_ms, other.forward_ms);
  longest.backward_ms = std::max(longest.backward_ms, other.backward_ms);
}

LayerTimes scaled(LayerTimes times, double scale) {
  for (LayerTimes::Layer& layer : times.layers) {
    layer.forward_ms *= scale;
    layer.backward_ms *= scale;
  }
  return times;
}

/// Text such as "31 ms", "3.1 ms", "0.031 ms".
std::string time_text(double ms) {
  std::array<char, 64> digits{};
  std::snprintf(digits.data(), digits.size(), "%.*f ms", ms >= 10 ? 0 : (ms >= 1 ? 1 : 3), ms);
  return digits.data();
}

/// Text such as "logical shards by speed: 14 for worker 0 (3.1 ms each), 2 for ...; the slowest
/// worker computes 43 ms per step".
std::string dealt_text(const std::vector<comm::WorkerStepTime>& step_times,
                       const std::vector<int64_t>& shards) {
  std::string line = "logical shards by speed:";
  for (size_t worker = 0; worker < std::min(shards.size(), kMostNamed); ++worker)
    line += text(worker == 0 ? " " : ", ", shards[worker], " for worker ", worker, " (",
                 time_text(step_times[worker].each_shard), " each)");
  if (shards.size() > kMostNamed)
    line += text(" and ", shards.size() - kMostNamed, " more workers");
  return line + text("; the slowest worker computes ",
                     time_text(comm::slowest_step(step_times, shards)), " per step");
}

void refuse_fewer_shards(const std::vector<comm::WorkerStepTime>& step_times, int64_t shards) {
  int64_t devices = 0;
  for (const comm::WorkerStepTime& worker : step_times) devices += worker.devices;
  if (shards < devices)
    throw ConfigError(text("cluster.logical_shards: expected at least ", devices,
                           ", one for each device of the workers, got ", shards));
}

}  // namespace

MeasuredPlan::MeasuredPlan(const Job& job, const Checkpoint* resumed, bool replan)
    : limit_mbps_(job.config.comm.bandwidth_limit_mbps),
      request_(plan_request(job)),
      earlier_(earlier_plan(job, request_, resumed, replan)),
      by_time_(decides_by_time(job, earlier_)),
      by_speed_(assigns_by_speed(job, request_, earlier_)),
      wants_link_(by_time_ && job.config.comm.link_mbps <= 0) {}

void MeasuredPlan::take_measurements(const MeasuredPlan& other) {
  times_ = other.times_;
  link_ = other.link_;
}

bool MeasuredPlan::wanted(const Job& job, const Checkpoint* resumed, bool replan) {
  const comm::PlanRequest request = plan_request(job);
  const std::optional<comm::Plan> earlier = earlier_plan(job, request, resumed, replan);
  return decides_by_time(job, earlier) || assigns_by_speed(job, request, earlier);
}

comm::Plan MeasuredPlan::provisional() const {
  comm::PlanRequest request = request_;
  if (by_time_) request.policy = comm::Policy::kBytes;
  if (by_speed_) {
    std::vector<int64_t> shards(static_cast<size_t>(request.workers), request.devices);
    shards[0] += request.logical_shards - request.workers * request.devices;
    request.assignment = comm::assignment_by_counts(shards, request.servers, request.servers_apart);
  }
  return sync_plan(request, earlier_);
}

comm::Plan MeasuredPlan::make() {
  if (times_.empty()) throw ConfigError("no worker has reported its layer times");
  if (by_speed_) assign_by_speed();
  add_longest_times();
  if (link_) add_link(times_.begin()->second.threads);
  return sync_plan(request_, earlier_);
}

/// Sets the link rate of the request, limited as the job requires. Unless the job sets the
/// processor time per byte, also sets it to the measured time divided by `threads`. `threads` are a
/// worker's compute threads, which share the processor time of network I/O.
void MeasuredPlan::add_link(double threads) {
  request_.link_mbps = limit_mbps_ > 0 ? std::min(link_->mbps, limit_mbps_) : link_->mbps;
  if (request_.processor_ns_per_byte == 0)
    request_.processor_ns_per_byte = link_->processor_ns_per_byte / threads;
}

void MeasuredPlan::assign_by_speed() {
  std::vector<comm::WorkerStepTime> step_times;
  for (const auto& [worker, times] : times_)
    step_times.push_back(
        {.each_shard = times.batch_ms(), .each_step = times.update_ms, .devices = times.devices});
  if (static_cast<int64_t>(step_times.size()) != request_.workers)
    throw ConfigError("not all workers have reported their layer times");
  refuse_fewer_shards(step_times, request_.logical_shards);
  const std::vector<int64_t> shards = comm::assign_shards(step_times, request_.logical_shards);
  request_.assignment =
      comm::assignment_by_counts(shards, request_.servers, request_.servers_apart);
  dealt_ = dealt_text(step_times, shards);
}

/// Sets each layer's time to the longest one of all workers. The time of a worker is that of its
/// device with the most shards. The time of a layer without sums is added to the layer with sums
/// before it. The first layers without sums have a separate time, `time_before`.
void MeasuredPlan::add_longest_times() {
  const comm::Assignment assignment = comm::assignment_of(request_);
  const auto shards = [&](uint32_t worker) {
    return static_cast<double>(assignment.shards_of(worker).count);
  };
  const double most = shards(assignment.fullest_worker());
  std::optional<comm::PlanRequest> longest;
  for (const auto& [worker, times] : times_) {
    comm::PlanRequest one = request_;
    const double in_turn = std::ceil(shards(worker) / static_cast<double>(times.devices));
    trainer::add_times(one, scaled(times, in_turn / most), text("the times of worker ", worker));
    if (!longest) longest = one;
    raise(longest->time_before, one.time_before);
    for (size_t i = 0; i < one.times.size(); ++i) raise(longest->times[i], one.times[i]);
    longest->rebuild_gflops = std::min(longest->rebuild_gflops, one.rebuild_gflops);
  }
  request_ = *std::move(longest);
}

}  // namespace poseidon::trainer
