#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "comm/asio/driver.h"
#include "trainer/coordinator/ssh_options.h"

namespace poseidon::apps {

/// What poseidon-train is to do with the job.
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
  std::filesystem::path config;        ///< the job file; with --resume RUN_DIR that run's own
  std::vector<std::string> overrides;  ///< --set, and the flags that stand for a --set
  std::filesystem::path output, resume, weights;
  bool replan = false;
  std::optional<int64_t> max_steps;
  bool json = false;
  bool trace = false;
  bool force = false;               ///< overwrite the file that a command writes
  bool simulates = false;           ///< of --plan: simulates it, too
  std::filesystem::path times;      ///< of --plan: what --time --json gave; may be empty
  std::vector<std::string> images;  ///< of --classify
  std::vector<std::string> layers;  ///< of --extract
  std::string listen;               ///< with external and with hosts: where members join
  bool external = false;
  std::filesystem::path hosts_file;  ///< what `ssh` was read from; may be empty
  trainer::SshOptions ssh;
  std::filesystem::path secret_file;  ///< with external
  comm::TlsFiles tls;                 ///< with external
  bool insecure = false;
  std::string schema;  ///< of --schema: "job" or "network"
  std::string stop_signals;
  std::string command;       ///< the whole command line
  std::string resume_flags;  ///< as trainer::RunOptions has them
};

/// Parses the command line. Throws ConfigError for a wrong one; none when --help or --version was
/// answered.
std::optional<TrainOptions> parse_train_options(int count, char** arguments);

}  // namespace poseidon::apps
