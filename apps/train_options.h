#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "comm/asio/driver.h"
#include "trainer/coordinator/ssh_options.h"

namespace poseidon::apps {

/// The action of poseidon-train.
enum class Action : int {
  kTrain,
  kCheck,
  kPlan,
  kTime,
  kTest,
  kTune,
  kReference,
  kSchema,
  kDevices,
  kClassify,
  kExtract
};

/// The arguments of poseidon-train's command line.
struct TrainOptions {
  Action action = Action::kTrain;
  std::filesystem::path config;        ///< the job file; default with --resume: the run's job file
  std::vector<std::string> overrides;  ///< --set, and the flags that stand for a --set
  std::filesystem::path output, resume, weights;
  bool replan = false;
  std::optional<int64_t> max_steps;
  bool json = false;
  bool trace = false;
  bool force = false;               ///< overwrite existing output files
  bool simulates = false;           ///< --plan: also simulate the plan
  std::filesystem::path times;      ///< file with the output of --time --json; may be empty
  std::vector<std::string> images;  ///< --classify: image files
  std::vector<std::string> layers;  ///< --extract: names of layers
  std::string listen;               ///< with --external or --hosts: address where members join
  bool external = false;
  std::filesystem::path hosts_file;  ///< file that ssh.hosts was read from; may be empty
  trainer::SshOptions ssh;
  std::filesystem::path secret_file;  ///< with --external; may be empty
  comm::TlsFiles tls;                 ///< with --external; may be empty
  bool insecure = false;
  std::string schema;  ///< --schema: "job" or "network"
  std::string stop_signals;
  std::string command;       ///< complete command line
  std::string resume_flags;  ///< see trainer::RunOptions
};

/// Parses the command line. Throws ConfigError if it is invalid. Returns nullopt after --help or
/// --version.
std::optional<TrainOptions> parse_train_options(int count, char** arguments);

}  // namespace poseidon::apps
