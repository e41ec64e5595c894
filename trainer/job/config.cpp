#include "trainer/job/config.h"

#include <algorithm>
#include <cmath>

#include "comm/plan/plan.h"
#include "comm/wire/liveness.h"
#include "comm/wire/slices.h"
#include "core/cores.h"
#include "core/digest.h"
#include "core/error.h"
#include "net/network.h"

namespace poseidon::trainer {

namespace {

/// A string field with the allowed values `names`.
void named(Fields& fields, std::string_view key, std::string& value,
           const std::vector<std::string>& names, std::string_view doc) {
  const auto at = std::find(names.begin(), names.end(), value);
  int index = static_cast<int>(at - names.begin());
  fields.choice(key, index, names, doc);
  value = names[static_cast<size_t>(index)];
}

void expect_one(const JsonPath& place, bool first, bool second, const char* pair) {
  if (first != second) return;
  fail_at(place, text("expected exactly one of ", pair, ", got ", first ? "both" : "neither"));
}

void check_devices(const DeviceConfig& device, const JsonPath& place) {
  if (device.indices.empty()) fail_at(place, "expected at least one device, got none");
  for (const int64_t index : device.indices)
    if (index != 0 && device.type != kCudaDevice)
      fail_at(place, text("expected 0 for each device, because a machine has one \"", device.type,
                          "\", got ", index));
}

void check_batch(const JobConfig& config, const std::string& file, JobUse use) {
  const JsonPath data{file, "/data"}, cluster{file, "/cluster"};
  const int64_t batch = config.global_batch(), shards = config.logical_shards();
  const int64_t workers = config.cluster.workers, devices = config.device.count();
  if (shards < workers * devices)
    fail_at(cluster.at("logical_shards"),
            devices == 1 ? text("expected at least \"workers\" (", workers, "), got ", shards)
                         : text("expected at least \"workers\" times the devices per worker (",
                                workers, " x ", devices, "), got ", shards));
  if (use == JobUse::kRun && batch % shards != 0)
    fail_at(data, text("expected a global batch divisible by \"cluster.logical_shards\" (", shards,
                       "), got ", batch, " samples"));
}

/// Checks the settings for nodes that join a running job.
void check_later_members(const JobConfig& config, const std::string& file) {
  const ClusterConfig& cluster = config.cluster;
  const JsonPath place{file, "/cluster"};
  const auto refuse = [&](const char* key, const std::string& expected, auto got) {
    fail_at(place.at(key), text("expected ", expected, ", got ", got));
  };
  const int64_t most = config.logical_shards() / config.device.count();
  if (cluster.max_workers > 0 && cluster.max_workers < cluster.workers)
    refuse("max_workers", text("at least \"workers\" (", cluster.workers, ")"),
           cluster.max_workers);
  if (cluster.max_workers > most)
    refuse("max_workers", text("at most ", most, ", one logical shard for each device"),
           cluster.max_workers);
  if (config.comm.staleness > 0) {
    const std::string none = text("0 with \"comm.staleness\" ", config.comm.staleness);
    if (cluster.max_workers > 0) refuse("max_workers", none, cluster.max_workers);
    if (cluster.gather_s > 0) refuse("gather_s", none, cluster.gather_s);
  }
  const char* measured = config.comm.policy == comm::Policy::kTime ? "\"comm.policy\" \"time\""
                         : cluster.balance == Balance::kSpeed      ? "\"balance\" \"speed\""
                                                                   : nullptr;
  if (cluster.gather_s > 0 && measured != nullptr)
    refuse("gather_s", text("0 with ", measured, ", which needs the times of all workers"),
           cluster.gather_s);
}

void check_extras(const data::DatasetConfig& config, const JsonPath& place) {
  if (const AuxiliaryInputError fault = first_error_in(config.extras))
    fail_at({place.file, place.pointer + "/extras" + fault.pointer}, fault.message);
}

void check_members(const JobConfig& config, const std::string& file) {
  const ClusterConfig& cluster = config.cluster;
  if (cluster.min_workers > cluster.workers)
    fail_at(
        JsonPath{file, "/cluster"}.at("min_workers"),
        text("expected at most \"workers\" (", cluster.workers, "), got ", cluster.min_workers));
  check_later_members(config, file);
}

}  // namespace

void DataConfig::describe(Fields& fields) {
  fields.object(
      "train", [this](Fields& f) { train.describe(f); }, "training set", Presence::kRequired);
  fields.object(
      "test", [this](Fields& f) { test.describe(f); }, "test set; absent: no tests",
      Presence::kOptional, &has_test);
  fields.integer("batch_per_worker", batch_per_worker, between(1, 1 << 24),
                 "samples per worker and step; not with global_batch");
  fields.integer("global_batch", global_batch, between(1, 1 << 24),
                 "samples of all workers per step");
  fields.integer("loader_threads", loader_threads, between(1, 64),
                 "threads per device that prepare batches; no effect on results");
}

void TrainConfig::describe(Fields& fields) {
  fields.integer("steps", steps, between(1, 1e12), "length of the job in steps; not with epochs");
  fields.number("epochs", epochs, {.minimum = 0, .maximum = 1e9, .above_minimum = true},
                "length of the job in passes over the training set");
  fields.integer("seed", seed, at_least(0),
                 "random seed of initial values, sample order, augmentation and dropout");
  fields.integer("test_every", test_every, at_least(0), "steps between tests; 0: only at the end");
  fields.integer("checkpoint_every", checkpoint_every, at_least(0),
                 "steps between checkpoints; 0: only at the end");
  fields.integer("keep_checkpoints", keep_checkpoints, at_least(0),
                 "number of newest checkpoints to keep, in addition to the one with the best test "
                 "accuracy; 0: all");
  fields.integer("log_every", log_every, at_least(1), "steps between lines of metrics.jsonl");
}

void DeviceConfig::describe(Fields& fields) {
  named(fields, "type", type, {kDeviceKinds.begin(), kDeviceKinds.end()},
        "device kind; replay sleeps for the layer times in \"times\" and learns nothing");
  fields.integers("indices", indices, between(0, 255),
                  "GPU index of each device of a worker; an index may repeat. cpu: 0 for each "
                  "device; the devices share \"threads\"");
  fields.integer("threads", threads, between(0, 1024),
                 "CPU compute threads of each worker; 0: all cores");
  named(fields, "precision", precision, {"fp32", kTf32Precision, kBf16Precision},
        "precision of activations and convolution products; weights, sums and updates stay fp32. "
        "tf32 (cuda only): products round fp32 factors to 10 mantissa bits");
  fields.boolean("deterministic", deterministic,
                 "use only deterministic algorithms; false (cuda only): all");
  fields.boolean("graphs", graphs, "use CUDA graphs (cuda only); results are equal without");
  fields.text(
      "choices", choices,
      "layouts and algorithms by layer: a file of --tune, or a plan.json; \"\": a fixed rule");
  fields.text("times", times, "for replay: output file of --time --json");
}

void CommConfig::describe(Fields& fields) {
  fields.option("scheme", scheme, comm::names_of<comm::SchemeRule>(),
                "gradient exchange: chosen per layer, parameter server, or sufficient factors");
  fields.option("policy", policy, comm::names_of<comm::Policy>(),
                "quantity that \"auto\" minimizes: bytes, or predicted step time");
  fields.text("plan", plan,
              "plan.json to reuse: schemes, and chunks and assignment if the numbers of nodes fit; "
              "\"\": new plan");
  fields.option("wire", wire, comm::names_of<comm::WireFormat>(),
                "wire format of weight gradients; biases, scales, shifts and running statistics "
                "stay fp32. bf16, int8: factors are bf16. int8: gradients are rounded to 8 bits "
                "for each logical shard, so results do not depend on the number of workers");
  fields.integer("chunk_bytes", chunk_bytes, between(1 << 16, comm::kMaxChunkBytes),
                 "maximum size of a chunk (part of the gradients with one server), bytes");
  fields.integer("staleness", staleness, between(0, comm::kMaxStaleness),
                 "delay of sums, steps: step t uses the sums of steps up to t - 1 - staleness");
  fields.number("bandwidth_limit_mbps", bandwidth_limit_mbps, at_least(0),
                "limit on a node's sending rate, Mbit/s; separate worker and server processes get "
                "half each; 0: no limit");
  fields.number("link_mbps", link_mbps, at_least(0),
                "link rate of a node in one direction, Mbit/s, for policy \"time\"; 0: measured "
                "when all workers have joined");
  fields.number("processor_ns_per_byte", processor_ns_per_byte, at_least(0),
                "for predictions: extra compute time per byte that a node sends or receives, ns; "
                "0: measured with the link");
  fields.option(
      "overlap", overlap, comm::names_of<comm::Overlap>(),
      "priority: each layer waits for its sum before its next forward pass; barrier: a step ends "
      "with all sums; none: as barrier, and sending starts after the backward pass");
  fields.option(
      "congestion_control", congestion_control, comm::congestion_control_names(),
      "TCP congestion control between hosts. system: unchanged. auto: unchanged, but cubic or "
      "reno instead of bbr if the round trip is under 2 ms");
}

void ClusterConfig::describe(Fields& fields) {
  fields.integer("workers", workers, between(1, 4096), "worker processes, which compute gradients");
  fields.integer("servers", servers, between(0, 4096),
                 "server processes, which sum gradients; 0: as many as workers");
  fields.integer("logical_shards", logical_shards, between(0, 1 << 20),
                 "equal parts of the global batch, summed by a fixed tree; 0: one per device of "
                 "each worker; more: gradient accumulation");
  fields.option("balance", balance, {"even", "speed"},
                "logical shards per worker: equal numbers, or by the speed measured when the "
                "worker joins (at least one)");
  fields.boolean("servers_apart", servers_apart, "servers run on separate hosts");
  fields.number("timeout_s", timeout_s, between(comm::kMinTimeoutSeconds, comm::kMaxTimeoutSeconds),
                "time without a heartbeat after which a node has failed, s; below 2, high load may "
                "cause false failures");
  fields.number("stall_timeout_s", stall_timeout_s, between(1, 1e8),
                "time without progress after which a node has failed, s");
  fields.number("rejoin_s", rejoin_s, between(0, 86400),
                "time for which daemons keep an in-memory checkpoint after a node failure ended "
                "the job, s; --resume fetches it; 0: none");
  fields.option("recover", recover, {"continue", "stop"},
                "after a node failure, from the first step on. continue: the others return to the "
                "last common step (with \"comm.staleness\": to the last checkpoint) and continue "
                "to the same bits. stop: the job saves its last complete step and ends");
  fields.integer("min_workers", min_workers, between(1, 4096),
                 "minimum number of workers; with fewer, the job ends");
  fields.integer("digest_every", digest_every, at_least(0),
                 "steps between replica divergence checks, each of another tenth of the tensors, "
                 "by checksum; 0: only at checkpoints and tests");
  fields.integer(
      "max_workers", max_workers, between(0, 4096),
      "with --external: maximum number of workers, at most one per logical shard; "
      "daemons join the running job up to it. New workers bring servers if the job began "
      "with equal numbers. 0: no joiners");
  fields.number("gather_s", gather_s, between(0, 1e6),
                "with --external: time to wait for all nodes, s. Then at least \"min_workers\" "
                "workers and a server begin; missing nodes join later. 0: no limit. Staleness, "
                "\"policy\" \"time\" and \"balance\" \"speed\" require 0");
}

void JobConfig::describe(Fields& fields) {
  fields.text("name", name, "name of the run; \"\": that of the job file");
  fields.text("network", network, "path of the network file", Presence::kRequired);
  fields.object(
      "data", [this](Fields& f) { data.describe(f); }, "datasets and batch size",
      Presence::kRequired);
  fields.object(
      "optimizer", [this](Fields& f) { optimizer.describe(f); }, "update rule of the parameters",
      Presence::kRequired);
  fields.object(
      "train", [this](Fields& f) { train.describe(f); }, "length, tests, checkpoints and logging",
      Presence::kRequired);
  fields.object(
      "device", [this](Fields& f) { device.describe(f); }, "compute devices of a worker");
  fields.object(
      "comm", [this](Fields& f) { comm.describe(f); }, "gradient exchange between workers");
  fields.object(
      "cluster", [this](Fields& f) { cluster.describe(f); }, "workers, servers and node failures");
}

JobConfig read_job_config(const Json& json, const std::string& file, JobUse use) {
  JobConfig config;
  const JsonPath top{file, ""};
  read_fields(json, top, [&](Fields& fields) { config.describe(fields); });
  expect_one(top.at("data"), config.data.batch_per_worker != 0, config.data.global_batch != 0,
             "\"batch_per_worker\" and \"global_batch\"");
  expect_one(top.at("train"), config.train.steps != 0, config.train.epochs > 0,
             "\"steps\" and \"epochs\"");
  if (config.name.find('/') != std::string::npos)
    fail_at(top.at("name"), "expected a name without \"/\", got " + shown(config.name));
  check_extras(config.data.train, top.at("data").at("train"));
  check_extras(config.data.test, top.at("data").at("test"));
  check_devices(config.device, top.at("device").at("indices"));
  check_members(config, file);
  check_batch(config, file, use);
  if (config.comm.staleness > 0 && config.comm.overlap != comm::Overlap::kPriority)
    fail_at(top.at("comm").at("overlap"),
            text("expected \"priority\" with \"staleness\" ", config.comm.staleness, ", got \"",
                 comm::name_of(config.comm.overlap), "\", which waits for all sums of a step"));
  return config;
}

void refuse_unsupported(const JobConfig& config, const std::string& file) {
  const JsonPath device{file, "/device"};
  if (config.device.precision == kTf32Precision && config.device.type != kCudaDevice)
    fail_at(device.at("precision"), "expected \"fp32\" or \"bf16\" for \"" + config.device.type +
                                        "\", got \"tf32\", which only \"cuda\" has");
  if ((config.device.type == kReplayDevice) == config.device.times.empty())
    fail_at(device.at("times"), config.device.times.empty()
                                    ? "\"replay\" requires a file of layer times (--times FILE)"
                                    : "expected layer times only with \"replay\"");
}

int64_t DeviceConfig::threads_of_each() const {
  if (count() == 1) return threads;
  return std::max<int64_t>(1, (threads > 0 ? threads : available_cores()) / count());
}

std::string DeviceConfig::name(size_t device) const {
  const bool numbered = type == kCudaDevice && (count() > 1 || indices[device] > 0);
  return numbered ? text(type, ":", indices[device]) : type;
}

std::string DeviceConfig::names() const {
  std::string all = name(0);
  for (size_t device = 1; device < indices.size(); ++device) all += ", " + name(device);
  return all;
}

int64_t steps_of(const TrainConfig& train, int64_t batch, int64_t samples) {
  if (train.steps != 0) return train.steps;
  const double steps =
      std::ceil(train.epochs * static_cast<double>(samples) / static_cast<double>(batch));
  if (steps > 1e12)
    throw ConfigError(text("train.epochs: expected at most 1e12 steps, got ", steps));
  return static_cast<int64_t>(steps);
}

Json resolved(JobConfig config) {
  Json json = write_fields([&](Fields& fields) { config.describe(fields); });
  // 0 stands for "not given" and is not a value that a file may hold.
  if (config.data.batch_per_worker == 0) json["data"].erase("batch_per_worker");
  if (config.data.global_batch == 0) json["data"].erase("global_batch");
  if (config.train.steps == 0) json["train"].erase("steps");
  if (config.train.epochs <= 0) json["train"].erase("epochs");
  return json;
}

Json result_settings(const JobConfig& config, const Json& network) {
  Json json = resolved(config);
  json.erase("name");
  // The numbers of members and the transport do not change the result, because the order of
  // additions is fixed. The plan decides how each layer is summed; the checkpoint stores it
  // separately.
  json["cluster"] = {{"logical_shards", config.logical_shards()}};
  json["data"].erase("batch_per_worker");
  json["data"]["global_batch"] = config.global_batch();
  json["network"] = network;
  for (const char* set : {"train", "test"}) {
    if (!json["data"].contains(set)) continue;
    Json& dataset = json["data"][set];
    dataset.erase("path");
    if (dataset.contains("transform")) dataset["transform"].erase("mean_image");
  }
  json["data"].erase("loader_threads");
  json["train"].erase("keep_checkpoints");
  json["device"].erase("threads");
  json["device"].erase("indices");
  json["device"].erase("graphs");
  json["device"].erase("choices");
  json["device"].erase("times");
  for (const char* key : {"plan", "policy", "chunk_bytes", "bandwidth_limit_mbps", "link_mbps",
                          "processor_ns_per_byte", "overlap", "congestion_control"})
    json["comm"].erase(key);
  return json;
}

std::string config_hash(const Json& result_settings_json) {
  const std::string contents = result_settings_json.dump();
  return sha256_hex(std::as_bytes(std::span(contents)));
}

// ---- schemas

namespace {

constexpr const char* kDialect = "https://json-schema.org/draft/2020-12/schema";

Json titled(const char* title, Json schema) {
  Json out{{"$schema", kDialect}, {"title", title}};
  Json properties{
      {"$schema",
       {{"type", "string"}, {"description", "URL or path of this schema, for editors; ignored"}}}};
  properties.update(schema["properties"]);
  schema["properties"] = std::move(properties);
  out.update(schema);
  return out;
}

/// Requires exactly one of two keys, whose default 0 means "not given".
void exclusive(Json& object, const char* first, const char* second) {
  for (const char* key : {first, second}) object["properties"][key].erase("default");
  object["oneOf"] = Json::array(
      {Json{{"required", Json::array({first})}}, Json{{"required", Json::array({second})}}});
}

}  // namespace

Json job_schema() {
  JobConfig config;
  Json schema = schema_of([&](Fields& fields) { config.describe(fields); });
  exclusive(schema["properties"]["data"], "batch_per_worker", "global_batch");
  exclusive(schema["properties"]["train"], "steps", "epochs");
  return titled("Poseidon job", std::move(schema));
}

Json network_schema() {
  Json schema = schema_of(net::describe_network);
  // A layer's required key may be in "defaults" instead.
  for (Json& branch : schema["properties"]["layers"]["items"]["oneOf"])
    branch["required"] = Json::array({"type"});
  return titled("Poseidon network", std::move(schema));
}

}  // namespace poseidon::trainer
