#include "apps/train_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>

#include "apps/command_line.h"
#include "apps/flag_checks.h"
#include "apps/isa_option.h"
#include "apps/stop_signals.h"
#include "apps/tls_options.h"
#include "comm/wire/address.h"
#include "core/error.h"
#include "core/shell_word.h"
#include "trainer/job/device_list.h"
#include "trainer/job/overrides.h"
#include "trainer/report/run_directory.h"

namespace poseidon::apps {

namespace {

/// The parser's results. parse_train_options() interprets these and completes `options`.
struct Arguments {
  TrainOptions options;
  std::optional<int64_t> workers, servers, threads;
  std::string config, output, resume, weights, device, listen, times, secret_file;
  std::string hosts, remote_folder, data_root, stop_signals = kDefaultStopSignals;
  bool external = false;
  std::array<bool, 7> actions{};  ///< check, plan, time, test, tune, reference, devices
};

/// The groups of --help, by purpose.
constexpr const char* kTrainGroup = "Train";
constexpr const char* kOtherGroup = "Other actions (at most one)";
constexpr const char* kClusterGroup = "Several workers";
constexpr const char* kOutputGroup = "Output";

constexpr const char* kFooter =
    "\nExamples:\n"
    "  poseidon-train configs/lenet-digits.json --output runs/digits\n"
    "  poseidon-train --resume runs/digits\n"
    "  poseidon-train --resume runs/digits --test\n"
    "  poseidon-train --resume runs/digits --classify 1.png 2.jpg\n"
    "  poseidon-train configs/lenet-digits.json --workers 2 --check --json\n"
    "\nSee also: README.md (recipes), docs/config.md (all keys of job and network\n"
    "files), docs/cluster.md (several machines), docs/plan.md, docs/security.md,\n"
    "docs/trace.md";

void add_train_options(CLI::App& app, Arguments& arguments) {
  const auto option = [&](const char* name, auto& value, const char* doc) {
    return app.add_option(name, value, doc)->group(kTrainGroup);
  };
  option("CONFIG", arguments.config, "job file; default with --resume: the job file of the run")
      ->type_name("FILE");
  option("--set", arguments.options.overrides, "override a value of the job")
      ->type_name("PATH=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  option("--output", arguments.output, "run directory; default: runs/<name>-<date>-<time>")
      ->type_name("FOLDER");
  option("--resume", arguments.resume, "continue a run: its directory, or a checkpoint in it")
      ->type_name("RUN");
  option("--weights", arguments.weights,
         "initial weights: a safetensors file, or a run directory (its newest checkpoint)")
      ->type_name("FILE");
  app.add_flag("--force", arguments.options.force,
               "overwrite an existing file of --tune, --extract or --trace")
      ->group(kTrainGroup);
  option("--max-steps", arguments.options.max_steps, "stop after this step of the job")
      ->check(whole_number(0));
  option("--stop-signals", arguments.stop_signals,
         "signals that end the run after the current step, in addition to INT, TERM and HUP; "
         "or none; default: USR1,USR2,XCPU");
  option("--threads", arguments.threads, "compute threads of each worker; 0: all cores")
      ->check(whole_number(0));
  option("--device", arguments.device,
         "devices of each worker: cpu, cuda, cuda:1 (the second GPU), or replay (sleeps for the "
         "times of --times); several: cuda:0,cuda:1 or cpu,cpu");
}

void add_actions(CLI::App& app, Arguments& arguments) {
  const auto flag = [&](const char* name, bool& value, const char* doc) {
    app.add_flag(name, value, doc)->group(kOtherGroup);
  };
  flag("--check", arguments.actions[0], "check job and network, print layers and memory");
  flag("--plan", arguments.actions[1], "print the communication plan");
  flag("--time", arguments.actions[2], "time each layer");
  flag("--test", arguments.actions[3], "test the weights of --resume or --weights");
  app.add_option(
         "--classify", arguments.options.images,
         "print the most likely classes of images; needs the weights of --resume or --weights")
      ->type_name("FILE")
      ->group(kOtherGroup);
  app.add_option("--extract", arguments.options.layers,
                 "write the outputs of these layers for each test sample to features.safetensors "
                 "in --output, or without it to <name>.features.safetensors; needs the weights of "
                 "--resume or --weights")
      ->type_name("LAYER[,LAYER]")
      ->delimiter(',')
      ->take_all()
      ->allow_extra_args(false)
      ->group(kOtherGroup);
  flag("--tune", arguments.actions[4],
       "time layouts and algorithms of each layer, write the fastest to a file");
  flag("--devices", arguments.actions[6], "print the devices of this machine");
  app.add_option("--schema", arguments.options.schema, "print a JSON Schema: job or network")
      ->check(CLI::IsMember({"job", "network"}))
      ->group(kOtherGroup);
  app.add_option("--times", arguments.times,
                 "with --plan or --device replay: output file of --time --json")
      ->type_name("FILE")
      ->group(kOtherGroup);
  flag("--simulate", arguments.options.simulates,
       "with --plan and --times: simulate a few steps of the plan");
  app.add_flag("--reference", arguments.actions[5], "print docs/config.md")->group("");
}

void add_cluster_options(CLI::App& app, Arguments& arguments) {
  const auto option = [&](const char* name, auto& value, const char* doc) {
    return app.add_option(name, value, doc)->group(kClusterGroup);
  };
  const auto flag = [&](const char* name, bool& value, const char* doc) {
    app.add_flag(name, value, doc)->group(kClusterGroup);
  };
  option("--workers", arguments.workers, "worker processes, which compute gradients")
      ->check(whole_number(1));
  option("--servers", arguments.servers, "server processes, which sum gradients")
      ->check(whole_number(0));
  flag("--replan", arguments.options.replan,
       "with --resume: make a new plan (rounding may differ)");
  flag("--external", arguments.external, "wait for daemons to join");
  option("--hosts", arguments.hosts,
         "start workers and servers by ssh on the hosts of this file, one line [user@]host[:port] "
         "[slots=N] for each host")
      ->type_name("FILE");
  option("--listen", arguments.listen,
         "with --external or --hosts: address at which nodes join; port 0: any free port")
      ->type_name("ADDR:PORT")
      ->check(address());
  option("--remote-folder", arguments.remote_folder,
         "with --hosts: folder of the programs on the hosts; default: as on this machine")
      ->type_name("FOLDER");
  option("--data-root", arguments.data_root,
         "with --hosts: folder of the data on the hosts; default: $POSEIDON_DATA of this machine, "
         "else of the host")
      ->type_name("FOLDER");
  option("--secret-file", arguments.secret_file, "with --external: file with the cluster's secret")
      ->type_name("FILE");
  add_tls_options(app, arguments.options.tls, kClusterGroup);
  flag("--insecure", arguments.options.insecure,
       "with --external: listen beyond loopback without a secret or TLS");
}

void add_output_options(CLI::App& app, Arguments& arguments) {
  const auto flag = [&](const char* name, bool& value, const char* doc) {
    app.add_flag(name, value, doc)->group(kOutputGroup);
  };
  flag("--json", arguments.options.json, "print the result as one JSON object on standard output");
  flag("--trace", arguments.options.trace,
       "write trace.json: a timeline of the last steps, for ui.perfetto.dev");
}

Action action_of(const Arguments& arguments) {
  constexpr std::array kActions{Action::kCheck, Action::kPlan,      Action::kTime,   Action::kTest,
                                Action::kTune,  Action::kReference, Action::kDevices};
  std::vector<Action> asked;
  for (size_t i = 0; i < kActions.size(); ++i)
    if (arguments.actions[i]) asked.push_back(kActions[i]);
  if (!arguments.options.schema.empty()) asked.push_back(Action::kSchema);
  if (!arguments.options.images.empty()) asked.push_back(Action::kClassify);
  if (!arguments.options.layers.empty()) asked.push_back(Action::kExtract);
  if (asked.size() > 1)
    throw ConfigError(
        "expected at most one of --check, --plan, --time, --test, --classify, --extract, --tune, "
        "--devices, --schema");
  return asked.empty() ? Action::kTrain : asked[0];
}

bool needs_no_job(Action action) {
  return action == Action::kSchema || action == Action::kReference || action == Action::kDevices;
}

std::vector<std::string> device_overrides(const std::string& given) {
  const trainer::DeviceList devices = trainer::read_device_list(given);
  std::string indices;
  for (const int64_t index : devices.indices)
    indices += (indices.empty() ? "" : ",") + std::to_string(index);
  return {"device.type=" + devices.kind, "device.indices=[" + indices + "]"};
}

/// Returns the absolute path of the data folder in the environment (POSEIDON_DATA); "" if none. The
/// hosts may have their data at the same path.
std::string data_folder() {
  const char* folder = std::getenv("POSEIDON_DATA");
  return folder == nullptr || *folder == '\0' ? "" : std::filesystem::absolute(folder).string();
}

/// Reads the file of --hosts. Sets one worker per slot; --set and --workers override this number.
void read_ssh_options(Arguments& arguments) {
  if (arguments.hosts.empty()) return;
  TrainOptions& options = arguments.options;
  options.hosts_file = arguments.hosts;
  options.ssh = {.hosts = trainer::read_hosts(arguments.hosts),
                 .programs = arguments.remote_folder,
                 .data_root = arguments.data_root.empty() ? data_folder() : arguments.data_root};
  options.overrides.insert(
      options.overrides.begin(),
      "cluster.workers=" + std::to_string(trainer::slots_of(options.ssh.hosts)));
}

void add_overrides(Arguments& arguments) {
  const auto set = [&](const std::string& path, const std::optional<int64_t>& value) {
    if (value) arguments.options.overrides.push_back(path + "=" + std::to_string(*value));
  };
  set("cluster.workers", arguments.workers);
  set("cluster.servers", arguments.servers);
  set("device.threads", arguments.threads);
  if (!arguments.device.empty())
    for (std::string& each : device_overrides(arguments.device))
      arguments.options.overrides.push_back(std::move(each));
  if (!arguments.times.empty() && arguments.options.action != Action::kPlan)
    arguments.options.overrides.push_back("device.times=" + arguments.times);
}

void check_hosts_arguments(const Arguments& arguments) {
  if (arguments.hosts.empty()) {
    for (const auto& [flag, value] : {std::pair{"--remote-folder ", arguments.remote_folder},
                                      {"--data-root ", arguments.data_root}})
      if (!value.empty()) throw ConfigError(flag + value + " requires --hosts FILE");
    return;
  }
  const std::string given = "--hosts " + arguments.hosts;
  if (arguments.external)
    throw ConfigError(given +
                      " and --external: expected one of the two; --hosts starts the processes, "
                      "--external waits for daemons");
  if (arguments.listen.empty())
    throw ConfigError(given +
                      " requires --listen ADDR:PORT, an address of this machine that the hosts "
                      "can reach; port 0: any free port");
  const std::string host = comm::parse_address(arguments.listen).host;
  if (host == "0.0.0.0" || host == "::")
    throw ConfigError(
        "--listen " + arguments.listen +
        ": with --hosts, expected one address of this machine that the hosts can reach");
}

void check_cluster_arguments(const Arguments& arguments) {
  check_hosts_arguments(arguments);
  if (arguments.external && arguments.listen.empty())
    throw ConfigError("--external requires --listen ADDR:PORT, the address where daemons join");
  if (!arguments.external && arguments.hosts.empty() && !arguments.listen.empty())
    throw ConfigError("--listen " + arguments.listen +
                      " requires --external or --hosts; local processes need no address");
  if (!arguments.external && !arguments.secret_file.empty())
    throw ConfigError("--secret-file " + arguments.secret_file +
                      " requires --external; processes that poseidon-train starts use a random "
                      "secret");
  if (!arguments.external && arguments.options.insecure)
    throw ConfigError(
        "--insecure requires --external; processes that poseidon-train starts use a random secret");
  if (!arguments.external && arguments.options.tls.given())
    throw ConfigError(
        "--tls-certificate, --tls-key and --tls-authority require --external; processes that "
        "poseidon-train starts use a random secret and no certificates");
}

/// Returns a replacement for a flag that this program lacks: "--set KEY=VALUE" if the flag
/// resembles a key of the job, advice for --quiet and --verbose, or "".
std::string advice_on_flag(const std::string& flag, const std::string& value) {
  if (flag == "-q" || flag == "--quiet")
    return "2>/dev/null (messages go to standard error, results to standard output)";
  if (flag == "-v" || flag == "--verbose") return "--json (prints the complete result)";
  std::string typed = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  std::ranges::replace(typed, '-', '_');
  const std::string path = trainer::nearest_job_path(typed);
  if (path.empty()) return "";
  return "--set " + path + "=" + (value.empty() ? "VALUE" : value);
}

/// Returns the flags that the command to resume the run repeats. Most of them are not in the job
/// file of the run directory.
std::string resume_flags(const Arguments& arguments) {
  std::string flags;
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) flags += std::string(" ") + flag + " " + quoted_for_shell(value);
  };
  const auto number = [](const std::optional<int64_t>& value) {
    return value ? std::to_string(*value) : "";
  };
  if (!isa_is_best()) add("--isa", std::string(name_of(isa())));
  add("--workers", number(arguments.workers));
  add("--servers", number(arguments.servers));
  if (arguments.external) flags += " --external";
  add("--hosts", arguments.hosts);
  add("--listen", arguments.listen);
  add("--remote-folder", arguments.remote_folder);
  add("--data-root", arguments.data_root);
  add("--secret-file", arguments.secret_file);
  add("--tls-certificate", arguments.options.tls.certificate);
  add("--tls-key", arguments.options.tls.key);
  add("--tls-authority", arguments.options.tls.authority);
  if (arguments.options.insecure) flags += " --insecure";
  if (arguments.stop_signals != kDefaultStopSignals) add("--stop-signals", arguments.stop_signals);
  return flags;
}

std::string command_line(int count, char** values) {
  std::string command = "poseidon-train";
  for (int i = 1; i < count; ++i) command += " " + quoted_for_shell(values[i]);
  return command;
}

std::filesystem::path config_of(const Arguments& arguments) {
  if (!arguments.config.empty()) return arguments.config;
  if (!arguments.resume.empty()) return trainer::job_file_of(arguments.resume);
  throw ConfigError("expected a job file, got none: poseidon-train CONFIG.json (see --help)");
}

}  // namespace

std::optional<TrainOptions> parse_train_options(int count, char** values) {
  CLI::App app("Trains a convolutional network from a JSON job file.", "poseidon-train");
  add_isa_and_version(app, "poseidon-train", kTrainGroup);
  Arguments arguments;
  app.footer(kFooter);
  app.get_formatter()->column_width(28);
  add_train_options(app, arguments);
  add_actions(app, arguments);
  add_cluster_options(app, arguments);
  add_output_options(app, arguments);
  if (!parse_command_line(app, "poseidon-train", count, values, advice_on_flag))
    return std::nullopt;
  arguments.options.action = action_of(arguments);
  arguments.options.output = arguments.output;
  arguments.options.resume = arguments.resume;
  arguments.options.weights = arguments.weights;
  arguments.options.times = arguments.times;
  if (needs_no_job(arguments.options.action)) return arguments.options;
  check_cluster_arguments(arguments);
  arguments.options.listen = arguments.listen;
  arguments.options.external = arguments.external;
  arguments.options.secret_file = arguments.secret_file;
  read_ssh_options(arguments);
  if (!arguments.resume.empty() && !arguments.weights.empty())
    throw ConfigError(
        "--resume continues with the checkpoint's weights; expected --resume or --weights, not "
        "both");
  if (!arguments.times.empty() && arguments.options.action != Action::kPlan &&
      !arguments.device.starts_with(trainer::kReplayDevice))
    throw ConfigError("--times " + arguments.times + " requires --plan or --device replay");
  if (arguments.options.replan && arguments.resume.empty())
    throw ConfigError("--replan requires --resume; it replaces the plan of the resumed run");
  if (arguments.options.simulates && arguments.options.action != Action::kPlan)
    throw ConfigError("--simulate requires --plan");
  if (arguments.options.trace && arguments.options.action != Action::kTrain)
    throw ConfigError("--trace: only training writes a trace; remove --trace or the other action");
  read_stop_signals(arguments.stop_signals);
  arguments.options.stop_signals = arguments.stop_signals;
  arguments.options.command = command_line(count, values);
  arguments.options.resume_flags = resume_flags(arguments);
  add_overrides(arguments);
  arguments.options.config = config_of(arguments);
  return arguments.options;
}

}  // namespace poseidon::apps
