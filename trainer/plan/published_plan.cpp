#include "trainer/plan/published_plan.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "trainer/job/choices.h"
#include "trainer/plan/sync_plan.h"
#include "trainer/state/resume.h"

namespace poseidon::trainer {

void PublishedPlan::describe(Fields& fields) {
  fields.raw("plan", plan, "as in plan.json", Presence::kRequired);
  fields.raw("choices", choices, "layout and algorithm by layer", Presence::kRequired);
  fields.integer("steps", steps, at_least(0), "of the whole job", Presence::kRequired);
  fields.integer("first_step", first_step, at_least(0), "steps done", Presence::kRequired);
  fields.boolean("again", again,
                 "repeat the work that is due after first_step, which may be incomplete");
  fields.integer("last_step", last_step, at_least(0), "last step of the run", Presence::kRequired);
  fields.integer("in_flight", in_flight, between(0, comm::kMaxStaleness),
                 "number of last completed steps whose sums arrive with the initial values",
                 Presence::kRequired);
  fields.boolean("tested", tested, "the parameters after first_step are tested");
  fields.boolean("trace", trace, "record a trace");
  fields.boolean("restored", restored,
                 "plan of a later view: its initial values arrive as those of a checkpoint");
  fields.integer("receiving", receiving, between(0, comm::kMaxProcesses),
                 "workers, of the last ranks, that receive the values of worker 0");
}

bool PublishedPlan::receives_values(uint16_t worker) const {
  const auto workers = plan.find("workers");
  return workers != plan.end() && workers->is_number_integer() &&
         worker >= workers->get<int64_t>() - receiving;
}

namespace {

/// Whether metrics.jsonl of the resumed run has the result of the test after `step`. False if this
/// run writes to another directory, which has no such line.
bool is_tested(const RunOptions& options, int64_t step) {
  const std::filesystem::path run = run_of_checkpoint(options.resume);
  std::error_code failure;
  const bool same =
      options.output.empty() || std::filesystem::equivalent(options.output, run, failure);
  return same && has_test(run, step);
}

/// The kind of device in the job of a checkpoint; "" if unknown.
std::string device_of_job(const RunState& state) {
  const Json::json_pointer type("/device/type");
  const bool known = state.config.is_object() && state.config.contains(type);
  return known && state.config[type].is_string() ? state.config[type].get<std::string>() : "";
}

/// The worker and device that compute a logical shard.
struct ShardDevice {
  int64_t worker = 0;
  DeviceNote device;
};

/// The worker and device of each logical shard of a plan. A worker without a device note counts as
/// a device of kind `otherwise`.
std::vector<ShardDevice> devices_by_shard(const Json& plan, const Job& job,
                                          const std::string& otherwise) {
  const DeviceNotes devices = devices_of_plan(plan);
  const comm::Assignment assignment =
      comm::read_plan(plan, {"the plan", ""}, layer_traffic(*job.network)).assignment;
  std::vector<ShardDevice> shards;
  for (uint32_t shard = 0; shard < assignment.logical_shards(); ++shard) {
    const int64_t worker = assignment.worker_of(shard);
    const auto device = devices.find(static_cast<uint16_t>(worker));
    shards.push_back({worker, device == devices.end()
                                  ? DeviceNote{.kind = otherwise, .arithmetic = "", .devices = ""}
                                  : device->second});
  }
  return shards;
}

/// The first property in which two devices compute differently, with both values, such as {"cpu",
/// "cuda"}. Two empty strings if both compute alike, or if a device is unknown.
std::pair<std::string, std::string> difference_between(const DeviceNote& one,
                                                       const DeviceNote& other) {
  if (one.kind != other.kind) return {one.kind, other.kind};
  if (one.arithmetic.empty() || other.arithmetic.empty()) return {};
  if (one.arithmetic != other.arithmetic) return {one.arithmetic, other.arithmetic};
  return {};
}

/// Text such as "logical shard 3 was computed by cuda until the checkpoint and is now computed by
/// cpu on worker 1, ...".
std::string moved_shard(const Json& plan_before, const Json& plan_now, const Job& job,
                        const std::string& otherwise, const std::string& until) {
  const std::vector<ShardDevice> before = devices_by_shard(plan_before, job, otherwise);
  const std::vector<ShardDevice> now = devices_by_shard(plan_now, job, otherwise);
  if (before.size() != now.size()) return "";
  for (size_t shard = 0; shard < now.size(); ++shard) {
    const auto [was, is] = difference_between(before[shard].device, now[shard].device);
    if (was != is)
      return text("logical shard ", shard, " was computed by ", was, " until ", until,
                  " and is now computed by ", is, " on worker ", now[shard].worker,
                  ", so the result differs from that of an uninterrupted run");
  }
  return "";
}

}  // namespace

PublishedPlan begun_plan(const Job& job, const comm::Plan& plan, const Checkpoint* resumed,
                         const RunOptions& options) {
  const bool keeps_choices = resumed != nullptr && !options.replan &&
                             device_of_job(resumed->state()) == job.config.device.type;
  PublishedPlan published{
      .plan = comm::to_json(plan),
      .choices = choices_json(keeps_choices ? read_choices(resumed->state().choices,
                                                           {options.resume.string(), "/choices"},
                                                           *job.network)
                                            : choices_of(job)),
      .trace = options.trace};
  if (resumed == nullptr) return published;
  refuse_other_batch(resumed->state(), job, options.resume);
  published.first_step = resumed->state().step;
  published.in_flight = resumed->state().in_flight;
  published.tested = is_tested(options, published.first_step);
  return published;
}

void set_devices(PublishedPlan& published, const DeviceNotes& devices) {
  published.plan["devices"] = devices_json(devices);
}

void warn_of_other_devices(const RunState& before, const PublishedPlan& now, const Job& job,
                           Log& log) {
  if (before.plan.empty()) return;
  const std::string moved =
      moved_shard(before.plan, now.plan, job, device_of_job(before), "the checkpoint");
  if (!moved.empty()) log.warning(moved);
}

std::string moved_shard(const Json& plan_before, const Json& plan_now, const Job& job) {
  return moved_shard(plan_before, plan_now, job, job.config.device.type, "the previous view");
}

void set_end(PublishedPlan& published, const Job& job, int64_t samples, const RunOptions& options) {
  published.steps = steps_of(job.config.train, job.config.global_batch(), samples);
  // A run that is already beyond `max_steps` makes no steps.
  published.last_step = std::max(
      published.first_step, std::min(published.steps, options.max_steps.value_or(published.steps)));
}

Json write_published_plan(PublishedPlan published) {
  return write_fields([&](Fields& fields) { published.describe(fields); });
}

PublishedPlan read_published_plan(const Json& json) {
  PublishedPlan published;
  const JsonPath place{"the plan", ""};
  read_fields(json, place, [&](Fields& fields) { published.describe(fields); });
  const auto ordered = [&](const char* key, int64_t value, int64_t most) {
    if (value > most) fail_at(place.at(key), text("expected at most ", most, ", got ", value));
  };
  ordered("last_step", published.last_step, std::max(published.steps, published.first_step));
  ordered("first_step", published.first_step, published.last_step);
  ordered("in_flight", published.in_flight, published.first_step);
  return published;
}

comm::Plan read_sync_plan(const PublishedPlan& published, const Job& job, comm::NodeId self) {
  const JsonPath place{"the plan", ""};
  const std::vector<comm::LayerTraffic> layers = layer_traffic(*job.network);
  comm::Plan plan = comm::read_plan(published.plan, place, layers);
  const comm::PlanRequest asked = plan_request(job);
  const auto same = [&](const char* key, const auto& got, const auto& expected) {
    if (got != expected)
      fail_at(place.at(key), text("expected ", expected, " as in the job, got ", got));
  };
  // After failures or joins, the job continues with a plan for other numbers of members.
  const auto at_most = [&](const char* key, int64_t got, int64_t most) {
    if (got > most)
      fail_at(place.at(key), text("expected at most ", most, " as in the job, got ", got));
  };
  at_most("workers", plan.workers(), job.config.cluster.worker_limit());
  at_most("servers", plan.servers(), job.config.cluster.server_limit());
  same("logical_shards", plan.logical_shards(), asked.logical_shards);
  same("global_batch", plan.global_batch, asked.global_batch);
  same("staleness", plan.staleness, asked.staleness);
  same("wire", comm::name_of(plan.wire), comm::name_of(asked.wire));
  const int64_t nodes = self.role == comm::Role::kWorker ? plan.workers() : plan.servers();
  if (self.rank >= nodes)
    fail_at(place, text("expected a rank below ", nodes, ", got ", comm::name_of(self)));
  return plan;
}

net::Net::Options net_options(const Job& job, const PublishedPlan& published,
                              const comm::Plan& plan, int versions) {
  const bool chosen_for_this = job.device().type == job.config.device.type;
  const Json& choices = chosen_for_this ? published.choices : Json::object();
  return {.choices = read_choices(choices, {"the plan", "/choices"}, *job.network),
          .versions = versions,
          .factored = factored_layers(plan),
          .factor_rows = plan.global_batch};
}

Schedule schedule_of(const Job& job, int64_t steps, int64_t samples) {
  return {job.config.optimizer.schedule, job.config.optimizer.learning_rate, steps,
          static_cast<double>(samples) / static_cast<double>(job.config.global_batch()),
          job.file + ": /optimizer/schedule"};
}

RunState run_state(const Job& job, const PublishedPlan& published, const Schedule& schedule,
                   int64_t step, const net::Choices& choices, const std::string& dataset) {
  const Json result_settings = job.result_settings_json();
  return {.step = step,
          .samples = step * job.config.global_batch(),
          .learning_rate = schedule.learning_rate(step),
          .config_hash = config_hash(result_settings),
          .config = result_settings,
          .choices = choices_json(choices),
          .plan = published.plan,
          .dataset = dataset};
}

}  // namespace poseidon::trainer
