#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/log.h"
#include "data/dataset.h"
#include "data/transform.h"
#include "net/network.h"
#include "trainer/job/config.h"
#include "trainer/job/layer_times.h"

namespace poseidon::trainer {

/// Where a job comes from.
struct JobSource {
  std::filesystem::path file;
  std::vector<std::string> overrides = {};  ///< "--set" words
  data::VariableLookup lookup = [](std::string_view) {
    return std::nullopt;
  };  ///< values of ${VARIABLES} in paths
  /// A path that is not there, or a variable that is not set, is a warning: nothing will be read.
  bool data_may_be_missing = false;
  /// Data are read on other hosts: their paths stay as the job has them, and are not looked for.
  bool data_is_elsewhere = false;
  JobUse use = JobUse::kRun;
};

/// A job whose files are read and checked: what a run, --check and --time begin with.
struct Job {
  std::string file;                       ///< for messages
  JobConfig config;                       ///< paths are absolute, variables replaced
  std::unique_ptr<net::Network> network;  ///< for batches of config.shard_batch() samples
  std::optional<LayerTimes> times = {};   ///< that the device "replay" takes
  /// What this process computes with, where it chooses for itself; what the job means otherwise is
  /// the same: all but type and index are as in config.
  std::optional<DeviceConfig> own_device = {};

  const DeviceConfig& device() const { return own_device ? *own_device : config.device; }
  Json decisive_part() const { return decisive(config, network->json()); }
};

/// Reads job and network, resolves paths. Throws ConfigError.
Job load_job(const JobSource& source, Log& log);

/// Gives a job of the device "replay" its times, which `file` tells. Throws ConfigError where they
/// are of another network.
void set_times(Job& job, const Json& json, const std::string& file);

/// A dataset with its preparation for the job's network.
struct PreparedData {
  std::unique_ptr<data::Dataset> dataset;
  std::unique_ptr<data::Transform> transform;
};

enum class DataPart : uint8_t { kTrain, kTest };

/// Opens one of the job's datasets and checks that it goes with the network: shape, classes. Throws
/// ConfigError, RunError.
PreparedData open_data(const Job& job, DataPart part, Log& log);

/// Mixed where the job's training samples are mixed with one another.
net::LabelForm label_form(const JobConfig& config);

/// Throws ConfigError, naming `place`, `source` and the first label that means another class in one
/// list than in the other.
void refuse_other_classes(const JsonPlace& place, const std::string& source,
                          const std::vector<std::string>& expected,
                          const std::vector<std::string>& got);

/// The test set, opened so, or nothing when the job has none. Throws ConfigError when its classes
/// are not those of `train`: labels are places in these lists.
PreparedData open_test_data(const Job& job, const PreparedData& train, Log& log);

}  // namespace poseidon::trainer
