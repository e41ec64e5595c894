#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/plan/schemes.h"
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
  int64_t keep_checkpoints = 0;  ///< the newest so many, and the best; 0: all
  int64_t log_every = 20;        ///< steps

  void describe(Fields& fields);
};

/// "device" of a job.
struct DeviceConfig {
  std::string type = "cpu";
  std::vector<int64_t> indices = {0};  ///< for each device of a worker, which of the machine's
  int64_t threads = 0;                 ///< of the CPU, of all devices together; 0: all cores
  std::string precision = "fp32";
  bool deterministic = true;
  std::string choices;  ///< a file of choices by layer, made by --tune; "": the fixed rule
  std::string times;    ///< of "replay": the output of --time --json

  void describe(Fields& fields);

  /// Of a worker.
  int64_t count() const { return static_cast<int64_t>(indices.size()); }
  /// Of the CPU: those that compute in each device.
  int64_t threads_of_each() const;
  /// One device as --device has it: "cpu", "cuda", "cuda:1".
  std::string name(size_t device) const;
  /// All of them: "cuda:0, cuda:1".
  std::string names() const;
};
inline constexpr const char *kCpuDevice = "cpu", *kCudaDevice = "cuda", *kReplayDevice = "replay";
inline constexpr std::array kDeviceKinds{kCpuDevice, kCudaDevice, kReplayDevice};
inline constexpr const char *kTf32Precision = "tf32", *kBf16Precision = "bf16";

/// "comm" of a job.
struct CommConfig {
  comm::SchemeRule scheme = comm::SchemeRule::kAuto;
  comm::Policy policy = comm::Policy::kBytes;
  std::string plan;  ///< a file; "": a new plan
  DataType wire = DataType::kFp32;
  int64_t chunk_bytes = 2097152;
  int64_t staleness = 0;
  double bandwidth_limit_mbps = 0, link_mbps = 0, processor_ns_per_byte = 0;
  comm::Overlap overlap = comm::Overlap::kPriority;

  void describe(Fields& fields);
};

/// How logical shards are dealt to workers.
enum class Balance : uint8_t {
  kEven,   ///< as many to each
  kSpeed,  ///< by the times that the workers measure
};

/// What the loss of a worker or server means to a job.
enum class Recovery : uint8_t {
  kContinue,  ///< the others go back to the step that all have, and on
  kStop,      ///< the job ends with its last complete step saved
};

/// "cluster" of a job.
struct ClusterConfig {
  int64_t workers = 1, servers = 0;
  int64_t logical_shards = 0;  ///< 0: as many as devices of all workers
  Balance balance = Balance::kEven;
  bool servers_apart = false;
  double timeout_s = 10, stall_timeout_s = 600, rejoin_s = 120;
  Recovery recover = Recovery::kContinue;
  int64_t min_workers = 1;
  int64_t digest_every = 10;  ///< steps; 0: only where a checkpoint or test is due
  int64_t max_workers = 0;    ///< 0: nobody joins a job that has begun
  double gather_s = 0;        ///< 0: it begins when all are there

  int64_t most_workers() const { return std::max(workers, max_workers); }
  /// 0: as many as workers.
  int64_t most_servers() const {
    return servers == 0 || servers == workers ? most_workers() : servers;
  }

  void describe(Fields& fields);
};

/// A job file, as it is read. Nothing in it has been looked for on disk.
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
  /// The key that says how large the batch is.
  const char* batch_key() const {
    return data.global_batch != 0 ? "data.global_batch" : "data.batch_per_worker";
  }
  /// What that key says.
  int64_t batch() const {
    return data.global_batch != 0 ? data.global_batch : data.batch_per_worker;
  }
  /// Samples that go through the net at once.
  int64_t shard_batch() const { return global_batch() / logical_shards(); }
};

/// What a job is read for.
enum class JobUse : uint8_t {
  kRun,
  kPlan,  ///< workers and servers are only numbers: the batch need not divide among them
};

/// Reads a job and checks what its values mean together: exclusive pairs, batch and shards. Throws
/// ConfigError with file and place.
JobConfig read_job_config(const Json& json, const std::string& file, JobUse use = JobUse::kRun);

/// Refuses what no device of this version does.
void refuse_what_is_not_built(const JobConfig& config, const std::string& file);

/// Steps of the whole job, on a dataset of `samples`. Throws ConfigError.
int64_t steps_of(const TrainConfig& train, int64_t batch, int64_t samples);

/// Every key with its value: a job file that means the same.
Json resolved(JobConfig config);

/// What of a job decides the result: `resolved` without paths, threads and name, with the network
/// itself in place of its path. Its hash tells whether two runs can be the same.
Json decisive(const JobConfig& config, const Json& network);
/// 64 hexadecimal digits.
std::string config_hash(const Json& decisive_part);

/// The JSON Schema of job files, and of network files.
Json job_schema();
Json network_schema();

}  // namespace poseidon::trainer
