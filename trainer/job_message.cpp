#include "trainer/job_message.h"

#include <charconv>

#include "core/error.h"
#include "trainer/engine.h"
#include "trainer/sync_plan.h"

namespace poseidon::trainer {

void JobMessage::describe(Fields& fields) {
  fields.text("file", file, "of the job, for messages", Presence::kRequired);
  fields.raw("config", config, "the resolved job", Presence::kRequired);
  fields.raw("network", network, "its network", Presence::kRequired);
  fields.text("network_file", network_file, "for messages", Presence::kRequired);
  fields.boolean("times_layers", times_layers, "before the plan is made");
  fields.text("run", run, "that this is a part of");
  fields.boolean("goes_on", goes_on, "from the latest step that anybody has");
}

JobMessage job_message(const Job& job) {
  return {.file = job.file,
          .config = resolved(job.config),
          .network = job.network->json(),
          .network_file = job.config.network,
          .run = ""};
}

Json write_job_message(JobMessage message) {
  return write_fields([&](Fields& fields) { message.describe(fields); });
}

JobMessage read_job_message(const Json& json) {
  JobMessage message;
  read_fields(json, {"the job message", ""}, [&](Fields& fields) { message.describe(fields); });
  return message;
}

Job open_job_message(const JobMessage& message, const MemberOptions& options) {
  Job job{.file = message.file,
          .config = read_job_config(message.config, message.file),
          .network = nullptr};
  refuse_what_is_not_built(job.config, message.file);
  data::DatasetConfig &train = job.config.data.train, &test = job.config.data.test;
  for (std::string* path :
       {&train.path, &train.transform.mean_image, &test.path, &test.transform.mean_image})
    if (!path->empty()) *path = options.data_root.resolve(*path).string();
  job.config.device.threads = options.threads;
  job.network = std::make_unique<net::Network>(message.network, message.network_file,
                                               job.config.shard_batch());
  return job;
}

namespace {
constexpr const char* kTrainingSamples = "the number of training samples";
}  // namespace

std::vector<comm::Fact> facts_of(const Job& job, const PreparedData& train,
                                 const PreparedData& test) {
  std::vector<comm::Fact> facts{{"the hash of the job", config_hash(job.decisive_part())},
                                {"the training set", train.dataset->fingerprint()},
                                {kTrainingSamples, std::to_string(train.dataset->size())},
                                {"the kind of device", job.config.device.type}};
  if (test.dataset != nullptr) facts.push_back({"the test set", test.dataset->fingerprint()});
  return facts;
}

std::string fact(const std::vector<comm::Fact>& facts, const std::string& name) {
  for (const comm::Fact& each : facts)
    if (each.name == name) return each.value;
  return "";
}

int64_t training_samples(const std::vector<comm::Fact>& facts) {
  const std::string words = fact(facts, kTrainingSamples);
  int64_t samples = 0;
  const auto [end, failure] = std::from_chars(words.data(), words.data() + words.size(), samples);
  if (failure != std::errc{} || end != words.data() + words.size() || samples < 1)
    throw ConfigError(text("the workers told ", shown(words), " as ", kTrainingSamples,
                           ", expected an integer >= 1"));
  return samples;
}

void PublishedPlan::describe(Fields& fields) {
  fields.raw("plan", plan, "as in plan.json", Presence::kRequired);
  fields.raw("choices", choices, "layout and algorithm by layer", Presence::kRequired);
  fields.integer("steps", steps, at_least(0), "of the whole job", Presence::kRequired);
  fields.integer("first_step", first_step, at_least(0), "steps done", Presence::kRequired);
  fields.integer("last_step", last_step, at_least(0), "where the run ends", Presence::kRequired);
  fields.integer("in_flight", in_flight, between(0, comm::kMostStaleness),
                 "steps whose sums come with the first values", Presence::kRequired);
  fields.boolean("trace", trace, "record what is done when");
}

Json write_published_plan(PublishedPlan published) {
  return write_fields([&](Fields& fields) { published.describe(fields); });
}

PublishedPlan read_published_plan(const Json& json) {
  PublishedPlan published;
  const JsonPlace place{"the plan", ""};
  read_fields(json, place, [&](Fields& fields) { published.describe(fields); });
  const auto ordered = [&](const char* key, int64_t value, int64_t most) {
    if (value > most) fail_at(place.at(key), text("expected at most ", most, ", got ", value));
  };
  ordered("last_step", published.last_step, published.steps);
  ordered("first_step", published.first_step, published.last_step);
  ordered("in_flight", published.in_flight, published.first_step);
  return published;
}

comm::Plan read_sync_plan(const PublishedPlan& published, const Job& job, comm::NodeId self) {
  const JsonPlace place{"the plan", ""};
  const std::vector<comm::LayerTraffic> layers = layer_traffic(*job.network);
  comm::Plan plan = comm::read_plan(published.plan, place, layers);
  const comm::PlanRequest asked = plan_request(job);
  const auto same = [&](const char* key, const auto& got, const auto& expected) {
    if (got != expected)
      fail_at(place.at(key), text("expected ", expected, " as in the job, got ", got));
  };
  same("workers", plan.workers, asked.workers);
  same("servers", plan.servers, asked.servers);
  same("logical_shards", plan.logical_shards, asked.logical_shards);
  same("global_batch", plan.global_batch, asked.global_batch);
  same("staleness", plan.staleness, asked.staleness);
  same("wire", plan.wire, asked.wire);
  const int64_t nodes = self.role == comm::Role::kWorker ? plan.workers : plan.servers;
  if (self.rank >= nodes) fail_at(place, text("this node is ", comm::name_of(self), " of ", nodes));
  return plan;
}

double bandwidth_share(const JobConfig& config) {
  return config.comm.bandwidth_limit_mbps / (config.cluster.servers_apart ? 1 : 2);
}

std::vector<std::string> factored_layers(const comm::Plan& plan) {
  std::vector<std::string> names;
  for (const comm::LayerPlan& layer : plan.layers)
    if (layer.scheme == comm::Scheme::kSfb) names.push_back(layer.traffic.name);
  return names;
}

RunState run_state(const Job& job, const PublishedPlan& published, const Schedule& schedule,
                   int64_t step, const net::Choices& choices, const std::string& dataset) {
  const Json decisive = job.decisive_part();
  return {.step = step,
          .samples = step * job.config.global_batch(),
          .learning_rate = schedule.learning_rate(step),
          .config_hash = config_hash(decisive),
          .config = decisive,
          .choices = choices_json(choices),
          .plan = published.plan,
          .dataset = dataset};
}

}  // namespace poseidon::trainer
