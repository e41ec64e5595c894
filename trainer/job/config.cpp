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
      fail_at(place, text("expected 0 for each device, as a machine has one \"", device.type,
                          "\", got ", index));
}

void check_batch(const JobConfig& config, const std::string& file, JobUse use) {
  const JsonPath data{file, "/data"}, cluster{file, "/cluster"};
  const int64_t batch = config.global_batch(), shards = config.logical_shards();
  const int64_t workers = config.cluster.workers, devices = config.device.count();
  if (shards < workers * devices)
    fail_at(cluster.at("logical_shards"),
            devices == 1 ? text("expected at least \"workers\" (", workers, "), got ", shards)
                         : text("expected at least \"workers\" times the devices of each (",
                                workers, " x ", devices, "), got ", shards));
  if (use == JobUse::kRun && batch % shards != 0)
    fail_at(data, text("expected a global batch that \"cluster.logical_shards\" (", shards,
                       ") divides, got ", batch, " samples"));
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
    refuse("max_workers", text("at most one for each of \"logical_shards\" (", most, ")"),
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
    refuse("gather_s", text("0 with ", measured, ", for which all workers measure"),
           cluster.gather_s);
}

void check_extras(const data::DatasetConfig& config, const JsonPath& place) {
  if (const ExtraFault fault = fault_in(config.extras))
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
      "train", [this](Fields& f) { train.describe(f); }, "what is trained on", Presence::kRequired);
  fields.object(
      "test", [this](Fields& f) { test.describe(f); },
      "what is tested on, while training and at its end", Presence::kOptional, &has_test);
  fields.integer("batch_per_worker", batch_per_worker, between(1, 1 << 24),
                 "samples of one worker in a step; this or global_batch");
  fields.integer("global_batch", global_batch, between(1, 1 << 24),
                 "samples of all workers in a step");
  fields.integer("loader_threads", loader_threads, between(1, 64),
                 "threads that prepare the batches of a device; they change no result");
}

void TrainConfig::describe(Fields& fields) {
  fields.integer("steps", steps, between(1, 1e12), "length of the job; this or epochs");
  fields.number("epochs", epochs, {.minimum = 0, .maximum = 1e9, .above_minimum = true},
                "length of the job in passes over the training set");
  fields.integer("seed", seed, at_least(0), "of first values, order, augmentation and dropout");
  fields.integer("test_every", test_every, at_least(0), "steps between tests; 0: at the end only");
  fields.integer("checkpoint_every", checkpoint_every, at_least(0),
                 "steps between checkpoints; 0: at the end only");
  fields.integer("keep_checkpoints", keep_checkpoints, at_least(0),
                 "checkpoints that stay: the newest so many, and the one with the best test "
                 "accuracy; 0: all");
  fields.integer("log_every", log_every, at_least(1), "steps between lines of metrics.jsonl");
}

void DeviceConfig::describe(Fields& fields) {
  named(fields, "type", type, {kDeviceKinds.begin(), kDeviceKinds.end()},
        "what computes; replay: nothing, its layers only take the time that \"times\" tells");
  fields.integers(
      "indices", indices, between(0, 255),
      "what each worker computes with, an entry for each device: which of the machine's "
      "GPUs; one may stand twice. Of cpu, whose threads its devices divide, 0 each");
  fields.integer("threads", threads, between(0, 1024),
                 "computing threads of cpu, of each worker; 0: all cores");
  named(fields, "precision", precision, {"fp32", kTf32Precision, kBf16Precision},
        "of activations, and of the products of convolutions; weights, sums and updates are fp32. "
        "tf32: products round their factors to ten bits of mantissa, of cuda only");
  fields.boolean("deterministic", deterministic,
                 "only algorithms that come to the same bits every time; false: any, of cuda only");
  fields.text("choices", choices,
              "file of choices by layer, made by --tune, or a plan.json; \"\": a fixed rule");
  fields.text("times", times, "of replay: the output of --time --json");
}

void CommConfig::describe(Fields& fields) {
  fields.option(
      "scheme", scheme, comm::names_of<comm::SchemeRule>(),
      "how gradients are summed: chosen for each layer, parameter server, sufficient factors");
  fields.option("policy", policy, comm::names_of<comm::Policy>(), "what \"auto\" makes small");
  fields.text("plan", plan, "a plan.json that is taken as it is");
  fields.option(
      "wire", wire, comm::names_of<DataType>(),
      "what gradients of weights and factors are sent as; biases, scales, shifts and running "
      "statistics are always sent as fp32");
  fields.integer("chunk_bytes", chunk_bytes, between(1 << 16, comm::kMostChunkBytes),
                 "largest piece of a gradient that goes to one server");
  fields.integer("staleness", staleness, between(0, comm::kMostStaleness),
                 "steps that sums are late: step t is computed with those of the steps up to t - 1 "
                 "- staleness");
  fields.number(
      "bandwidth_limit_mbps", bandwidth_limit_mbps, at_least(0),
      "that a node sends; its worker and its server have half each where they are processes "
      "of their own; 0: no limit");
  fields.number("link_mbps", link_mbps, at_least(0),
                "speed of a node's link, one direction, which policy \"time\" needs; 0: measured "
                "when the workers have joined");
  fields.number(
      "processor_ns_per_byte", processor_ns_per_byte, at_least(0),
      "by how much computing takes longer for each byte that a node sends or receives, for "
      "predictions; 0: measured with the link");
  fields.option(
      "overlap", overlap, comm::names_of<comm::Overlap>(),
      "when sums are waited for: each layer's before its next forward pass, all at the end of a "
      "step, or all and nothing is sent before the backward pass is through");
}

void ClusterConfig::describe(Fields& fields) {
  fields.integer("workers", workers, between(1, 4096), "processes that compute");
  fields.integer("servers", servers, between(0, 4096), "processes that add gradients");
  fields.integer(
      "logical_shards", logical_shards, between(0, 1 << 20),
      "parts of the global batch, summed by a fixed tree; 0: as many as workers times the "
      "devices of each; more: gradient accumulation");
  fields.option("balance", balance, {"even", "speed"},
                "who has how many logical shards: all as many; by the speed that each worker "
                "measures when it joins, at least one");
  fields.boolean("servers_apart", servers_apart, "servers have hosts of their own");
  fields.number("timeout_s", timeout_s,
                between(comm::kLeastTimeoutSeconds, comm::kMostTimeoutSeconds),
                "silence after which a peer is lost; below 2, a busy machine or a full link may "
                "already look like one");
  fields.number("stall_timeout_s", stall_timeout_s, between(1, 1e8),
                "time without a sign of progress after which the job fails");
  fields.number("rejoin_s", rejoin_s, between(0, 86400),
                "how long a worker that outlives its job's end by a loss keeps the last complete "
                "step, for --resume to fetch");
  fields.option(
      "recover", recover, {"continue", "stop"},
      "when a worker or server is lost after the first step has begun: the others go back to the "
      "last step that all have (with \"comm.staleness\" to the last checkpoint) and on, to the "
      "same "
      "bits; or the job ends with the last complete step saved");
  fields.integer("min_workers", min_workers, between(1, 4096),
                 "workers without which a job does not go on, and ends");
  fields.integer("digest_every", digest_every, at_least(0),
                 "steps after which a tenth of the workers' tensors is compared by checksums, each "
                 "tenth in turn; 0: only where a checkpoint or a test is due");
  fields.integer(
      "max_workers", max_workers, between(0, 4096),
      "with --external: workers that the job may have once it has begun, at most one for "
      "each logical shard, and as many servers where it begins with as many as workers; "
      "daemons that come meanwhile join it. 0: none do");
  fields.number("gather_s", gather_s, between(0, 1e6),
                "with --external: time after which a job begins without workers and servers that "
                "have not come, once \"min_workers\" and a server have; they join it later. 0: it "
                "waits for all");
}

void JobConfig::describe(Fields& fields) {
  fields.text("name", name, "of the run; default: the name of the job file");
  fields.text("network", network, "the network file, seen from this file's folder",
              Presence::kRequired);
  fields.object(
      "data", [this](Fields& f) { data.describe(f); }, "samples", Presence::kRequired);
  fields.object(
      "optimizer", [this](Fields& f) { optimizer.describe(f); }, "how parameters follow gradients",
      Presence::kRequired);
  fields.object(
      "train", [this](Fields& f) { train.describe(f); }, "how long, and what is done meanwhile",
      Presence::kRequired);
  fields.object(
      "device", [this](Fields& f) { device.describe(f); }, "what computes");
  fields.object(
      "comm", [this](Fields& f) { comm.describe(f); }, "how workers exchange gradients");
  fields.object(
      "cluster", [this](Fields& f) { cluster.describe(f); }, "who takes part");
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
            text("got \"", comm::name_of(config.comm.overlap),
                 "\", which waits for all sums of a step, but \"", "staleness\" is ",
                 config.comm.staleness, "; expected \"priority\""));
  return config;
}

void refuse_what_is_not_built(const JobConfig& config, const std::string& file) {
  const JsonPath device{file, "/device"};
  if (config.device.precision == kTf32Precision && config.device.type != kCudaDevice)
    fail_at(device.at("precision"),
            "got \"tf32\", which \"cuda\" has and \"" + config.device.type + "\" has not");
  if ((config.device.type == kReplayDevice) == config.device.times.empty())
    fail_at(device.at("times"), config.device.times.empty()
                                    ? "\"replay\" needs a file of times (--times FILE)"
                                    : "only \"replay\" has times");
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
  if (steps > 1e12) throw ConfigError("train.epochs: more steps than can be counted");
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

Json decisive(const JobConfig& config, const Json& network) {
  Json json = resolved(config);
  json.erase("name");
  // The numbers of members and the transport do not change the result: all sums follow one tree.
  // The plan decides how each layer is summed; the checkpoint stores it separately.
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
  json["device"].erase("choices");
  json["device"].erase("times");
  for (const char* key : {"plan", "policy", "chunk_bytes", "bandwidth_limit_mbps", "link_mbps",
                          "processor_ns_per_byte", "overlap"})
    json["comm"].erase(key);
  return json;
}

std::string config_hash(const Json& decisive_part) {
  const std::string contents = decisive_part.dump();
  return sha256_hex(std::as_bytes(std::span(contents)));
}

// ---- schemas

namespace {

constexpr const char* kDialect = "https://json-schema.org/draft/2020-12/schema";

Json titled(const char* title, Json schema) {
  Json out{{"$schema", kDialect}, {"title", title}};
  Json properties{{"$schema",
                   {{"type", "string"},
                    {"description", "address or path of this schema, for editors; ignored"}}}};
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
