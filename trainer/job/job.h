#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/log.h"
#include "data/corrupt_samples.h"
#include "data/dataset.h"
#include "data/transform.h"
#include "net/network.h"
#include "trainer/job/config.h"
#include "trainer/job/layer_times.h"

namespace poseidon::trainer {

/// The source of a job: its file, its overrides, and rules for its paths.
struct JobSource {
  std::filesystem::path file;
  std::vector<std::string> overrides = {};  ///< arguments of --set
  data::VariableLookup lookup = [](std::string_view) {
    return std::nullopt;
  };  ///< values of ${VARIABLES} in paths
  /// Whether a missing path or an unset variable is only a warning, because the action (--check,
  /// --plan, --time, --tune, --classify) does not need the data. The network file must exist.
  bool data_may_be_missing = false;
  /// Whether other hosts read the data. The paths of the data then stay unchanged and are not
  /// checked.
  bool data_is_elsewhere = false;
  JobUse use = JobUse::kRun;
};

/// A job whose files are read and checked. Input of a run, --check and --time.
struct Job {
  std::string file;                       ///< for messages
  JobConfig config;                       ///< paths are absolute, variables replaced
  std::unique_ptr<net::Network> network;  ///< for batches of config.shard_batch() samples
  std::optional<LayerTimes> times = {};   ///< only for the device "replay"
  /// The device of this process, if it differs from the job's. Only its type and indices differ
  /// from config.device.
  std::optional<DeviceConfig> own_device = {};

  const DeviceConfig& device() const { return own_device ? *own_device : config.device; }
  Json result_settings_json() const { return result_settings(config, network->json()); }
};

/// Reads job and network, and resolves paths. Throws ConfigError.
Job load_job(const JobSource& source, Log& log);

/// Sets the layer times of a job with the device "replay". `file` names their source in messages.
/// Throws ConfigError if they belong to another network.
void set_times(Job& job, const Json& json, const std::string& file);

/// A dataset, its transform for the job's network, and its corrupt samples so far.
struct PreparedData {
  std::unique_ptr<data::Dataset> dataset;
  std::unique_ptr<data::Transform> transform;
  std::unique_ptr<data::CorruptSamples> corrupt = std::make_unique<data::CorruptSamples>();
};

enum class DataPart : uint8_t { kTrain, kTest };

/// Opens one of the job's datasets, and checks that its shape, auxiliary inputs and classes fit the
/// network. Only warns if it has fewer classes than the network. Transforms the first sample, and
/// throws ConfigError if the transform rejects it. Throws ConfigError, RunError.
PreparedData open_data(const Job& job, DataPart part, Log& log);

/// The form of the labels: kMixed if the job combines training samples (mixup, cutmix), otherwise
/// kPlain.
net::LabelForm label_form(const JobConfig& config);

/// Throws ConfigError if the lists of classes `expected` and `got` differ. The message names
/// `place`, `source` and the first label that means different classes.
void refuse_other_classes(const JsonPath& place, const std::string& source,
                          const std::vector<std::string>& expected,
                          const std::vector<std::string>& got);

/// Opens the test set like open_data(). Returns an empty PreparedData if the job has no test set.
/// Throws ConfigError if its classes differ from those of `train`: a label is an index into the
/// list of classes.
PreparedData open_test_data(const Job& job, const PreparedData& train, Log& log);

}  // namespace poseidon::trainer
