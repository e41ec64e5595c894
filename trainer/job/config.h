#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/plan/schemes.h"
#include "comm/wire/congestion_control.h"
#include "core/fields.h"
#include "core/json.h"
#include "data/dataset_config.h"
#include "trainer/job/optimizer_config.h"

namespace poseidon::trainer {

/// "data" of a job.
struct DataConfig {
  data::DatasetConfig train;
  data::DatasetConfig test = data::DatasetConfig::for_testing();
  bool has_test = false;
  int64_t batch_per_worker = 0, global_batch = 0;  ///< exactly one is not 0
  int64_t loader_threads = 1;

  void describe(Fields& fields);
};

/// "train" of a job.
struct TrainConfig {
  int64_t steps = 0;  ///< exactly one of steps and epochs is not 0
  double epochs = 0;
  int64_t seed = 1;
  int64_t test_every = 0;        ///< steps; 0: at the end only
  int64_t checkpoint_every = 0;  ///< steps; 0: at the end only
  int64_t keep_checkpoints = 0;  ///< keeps this many newest checkpoints, and the best; 0: all
  int64_t log_every = 20;        ///< steps

  void describe(Fields& fields);
};

/// "device" of a job.
struct DeviceConfig {
  std::string type = "cpu";
  std::vector<int64_t> indices = {0};  ///< by device of a worker: its index on the machine
  int64_t threads = 0;                 ///< CPU threads of all devices together; 0: all cores
  std::string precision = "fp32";
  bool deterministic = true;
  bool graphs = true;  ///< whether a GPU issues recurring work as CUDA graphs
  /// File with layouts and algorithms by layer, from --tune, or a plan.json; "": a fixed rule
  /// chooses them.
  std::string choices;
  std::string times;  ///< only for "replay": file with layer times, the output of --time --json

  void describe(Fields& fields);

  /// Number of devices of a worker.
  int64_t count() const { return static_cast<int64_t>(indices.size()); }
  /// CPU threads of each device; 0: all cores.
  int64_t threads_of_each() const;
  /// One device in the format of --device: "cpu", "cuda", "cuda:1".
  std::string name(size_t device) const;
  /// All devices: "cuda:0, cuda:1".
  std::string names() const;
};
inline constexpr const char *kCpuDevice = "cpu", *kCudaDevice = "cuda", *kReplayDevice = "replay";
inline constexpr std::array kDeviceKinds{kCpuDevice, kCudaDevice, kReplayDevice};
inline constexpr const char *kTf32Precision = "tf32", *kBf16Precision = "bf16";

/// "comm" of a job.
struct CommConfig {
  comm::SchemeRule scheme = comm::SchemeRule::kAuto;
  comm::Policy policy = comm::Policy::kBytes;
  std::string plan;  ///< plan file; "": make a new plan
  comm::WireFormat wire = comm::WireFormat::kFp32;
  int64_t chunk_bytes = 2097152;
  int64_t staleness = 0;
  double bandwidth_limit_mbps = 0, link_mbps = 0, processor_ns_per_byte = 0;
  comm::Overlap overlap = comm::Overlap::kPriority;
  comm::CongestionControl congestion_control = comm::CongestionControl::kAuto;

  void describe(Fields& fields);
};

/// Assignment of logical shards to workers.
enum class Balance : uint8_t {
  kEven,   ///< equal numbers
  kSpeed,  ///< by the speed of each worker, measured when the worker joins
};

/// Reaction of a job to the failure of a worker or server.
enum class Recovery : uint8_t {
  kContinue,  ///< the remaining members revert to the last common step and continue; with
              ///< staleness, to the last checkpoint
  kStop,      ///< the job saves its last complete step and ends
};

/// "cluster" of a job.
struct ClusterConfig {
  int64_t workers = 1, servers = 0;
  int64_t logical_shards = 0;  ///< 0: the number of devices of all workers
  Balance balance = Balance::kEven;
  bool servers_apart = false;
  double timeout_s = 10, stall_timeout_s = 600, rejoin_s = 120;
  Recovery recover = Recovery::kContinue;
  int64_t min_workers = 1;
  int64_t digest_every = 10;  ///< steps; 0: compare replicas only at checkpoints and tests
  int64_t max_workers = 0;    ///< limit after joins; 0: no worker may join a running job
  double gather_s = 0;  ///< seconds after which the job begins without missing nodes; 0: never

  int64_t worker_limit() const { return std::max(workers, max_workers); }
  /// Maximum number of servers. If the job begins with as many servers as workers (also the
  /// default), servers may join like workers.
  int64_t server_limit() const {
    return servers == 0 || servers == workers ? worker_limit() : servers;
  }

  void describe(Fields& fields);
};

/// The content of a job file. Its paths are not checked.
struct JobConfig {
  std::string name;
  std::string network;  ///< path of the network file
  DataConfig data;
  OptimizerConfig optimizer;
  TrainConfig train;
  DeviceConfig device;
  CommConfig comm;
  ClusterConfig cluster;

  void describe(Fields& fields);

  int64_t logical_shards() const {
    return cluster.logical_shards == 0 ? cluster.workers * device.count() : cluster.logical_shards;
  }
  int64_t global_batch() const {
    return data.global_batch != 0 ? data.global_batch : data.batch_per_worker * cluster.workers;
  }
  /// The key that sets the batch size.
  const char* batch_key() const {
    return data.global_batch != 0 ? "data.global_batch" : "data.batch_per_worker";
  }
  /// The value of batch_key().
  int64_t batch() const {
    return data.global_batch != 0 ? data.global_batch : data.batch_per_worker;
  }
  /// Samples of one logical shard, the batch of one pass through the net.
  int64_t shard_batch() const { return global_batch() / logical_shards(); }
};

/// The purpose for which a job is read.
enum class JobUse : uint8_t {
  kRun,
  kPlan,  ///< only to make a plan: the batch need not be divisible by logical_shards
};

/// Reads a job and checks the combination of its values: exclusive pairs, batch, shards. Throws
/// ConfigError with file and position.
JobConfig read_job_config(const Json& json, const std::string& file, JobUse use = JobUse::kRun);

/// Throws ConfigError for settings that do not fit the job's device: tf32 without a GPU, the device
/// "replay" without layer times, or layer times with another device.
void refuse_unsupported(const JobConfig& config, const std::string& file);

/// Number of steps of the whole job. `batch`: global batch, `samples`: size of the training set.
/// Throws ConfigError if the number is too large.
int64_t steps_of(const TrainConfig& train, int64_t batch, int64_t samples);

/// The job as the JSON of a job file with every key, including defaults. Of two exclusive keys it
/// contains only the one that is set.
Json resolved(JobConfig config);

/// The settings that determine the result: resolved() without paths, threads, name and other
/// settings without effect on the result. "network" is the network's JSON instead of its path.
Json result_settings(const JobConfig& config, const Json& network);
/// SHA-256 of result_settings(), as 64 hexadecimal digits.
std::string config_hash(const Json& result_settings_json);

/// The JSON Schema of job files, and of network files.
Json job_schema();
Json network_schema();

}  // namespace poseidon::trainer
