#include "apps/train_options.h"

#include <CLI/CLI.hpp>
#include <array>
#include <iostream>

#include "apps/tls_options.h"
#include "core/error.h"

namespace poseidon::apps {

namespace {

/// What the parser fills, before it is made sense of.
struct Words {
  TrainOptions options;
  std::optional<int64_t> workers, servers, threads;
  std::string config, output, resume, weights, device, listen, times, secret_file;
  bool external = false;
  std::array<bool, 6> actions{};  ///< check, plan, time, test, tune, reference
};

void add_actions(CLI::App& app, Words& words) {
  app.add_flag("--check", words.actions[0], "check job and network, print layers and memory");
  app.add_flag("--plan", words.actions[1], "print the communication plan");
  app.add_flag("--time", words.actions[2], "time each layer");
  app.add_flag("--test", words.actions[3], "test the weights of --resume or --weights");
  app.add_flag("--tune", words.actions[4], "time the choices of each layer");
  app.add_option("--schema", words.options.schema, "print a JSON Schema: job or network")
      ->check(CLI::IsMember({"job", "network"}));
  app.add_flag("--reference", words.actions[5], "print docs/config.md")->group("");
}

void add_options(CLI::App& app, Words& words) {
  app.add_option("CONFIG", words.config, "job file");
  app.add_option("--set", words.options.overrides, "PATH=VALUE: override a value of the job")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--output", words.output, "run directory; default: runs/<name>-<date>-<time>");
  app.add_option("--resume", words.resume, "go on: a run directory or a checkpoint");
  app.add_flag("--replan", words.options.replan, "with --resume: choose anew (may change bits)");
  app.add_option("--weights", words.weights, "begin with the weights of a safetensors file");
  app.add_option("--max-steps", words.options.max_steps, "stop after this step of the job")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--threads", words.threads, "computing threads; 0: all cores");
  app.add_option("--device", words.device, "what computes: cpu");
  app.add_option("--workers", words.workers, "processes that compute");
  app.add_option("--servers", words.servers, "processes that add gradients");
  app.add_option("--listen", words.listen, "ADDR:PORT for daemons to join");
  app.add_flag("--external", words.external, "wait for daemons");
  app.add_option("--secret-file", words.secret_file, "with --external: the cluster's secret");
  add_tls_options(app, words.options.tls);
  app.add_flag("--insecure", words.options.insecure,
               "with --external: allow to listen beyond loopback without a secret or TLS");
  app.add_option("--times", words.times, "with --plan: the output of --time --json");
  app.add_flag("--trace", words.options.trace,
               "write trace.json: who did what when in the last steps, for ui.perfetto.dev");
  app.add_flag("--json", words.options.json, "the result as one JSON object on standard output");
}

Action action_of(const Words& words) {
  constexpr std::array kActions{Action::kCheck, Action::kPlan, Action::kTime,
                                Action::kTest,  Action::kTune, Action::kReference};
  std::vector<Action> asked;
  for (size_t i = 0; i < kActions.size(); ++i)
    if (words.actions[i]) asked.push_back(kActions[i]);
  if (!words.options.schema.empty()) asked.push_back(Action::kSchema);
  if (asked.size() > 1)
    throw ConfigError("expected at most one of --check, --plan, --time, --test, --tune, --schema");
  return asked.empty() ? Action::kTrain : asked[0];
}

/// "cpu" or "cpu:1"; several devices are for several workers.
std::string device_kind(const std::string& device) {
  const std::string kind = device.substr(0, device.find_first_of(":,"));
  if (device.find(',') != std::string::npos || (kind != device && device != kind + ":1"))
    throw ConfigError("--device " + device +
                      ": more than one device is for distributed training, which is not in this "
                      "build; expected --device cpu");
  return kind;
}

void add_overrides(Words& words) {
  const auto set = [&](const std::string& path, const std::optional<int64_t>& value) {
    if (value) words.options.overrides.push_back(path + "=" + std::to_string(*value));
  };
  set("cluster.workers", words.workers);
  set("cluster.servers", words.servers);
  set("device.threads", words.threads);
  if (!words.device.empty())
    words.options.overrides.push_back("device.type=" + device_kind(words.device));
}

void check_cluster_words(const Words& words) {
  if (words.external && words.listen.empty())
    throw ConfigError("--external: expected --listen ADDR:PORT beside it, where daemons join");
  if (!words.external && !words.listen.empty())
    throw ConfigError("--listen " + words.listen +
                      ": expected --external beside it; local processes need no address");
  if (!words.external && words.options.tls.given())
    throw ConfigError(
        "--tls-certificate, --tls-key, --tls-authority: expected --external beside them; local "
        "processes talk over loopback, with a secret of their own");
}

std::filesystem::path config_of(const Words& words) {
  if (!words.config.empty()) return words.config;
  const std::filesystem::path own = std::filesystem::path(words.resume) / "config.json";
  if (!words.resume.empty() && std::filesystem::exists(own)) return own;
  throw ConfigError("a job file is missing: poseidon-train CONFIG.json (see --help)");
}

}  // namespace

std::optional<TrainOptions> parse_train_options(int count, char** words_in) {
  CLI::App app("Trains a convolutional network from a JSON job file.", "poseidon-train");
  app.set_version_flag("--version", std::string("poseidon-train ") + POSEIDON_VERSION);
  Words words;
  add_options(app, words);
  add_actions(app, words);
  try {
    app.parse(count, words_in);
  } catch (const CLI::Success& success) {
    app.exit(success, std::cout, std::cerr);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw ConfigError(std::string(error.what()) + " (see poseidon-train --help)");
  }
  words.options.action = action_of(words);
  words.options.output = words.output;
  words.options.resume = words.resume;
  words.options.weights = words.weights;
  words.options.times = words.times;
  if (words.options.action == Action::kSchema || words.options.action == Action::kReference)
    return words.options;
  check_cluster_words(words);
  words.options.listen = words.listen;
  words.options.external = words.external;
  words.options.secret_file = words.secret_file;
  if (!words.resume.empty() && !words.weights.empty())
    throw ConfigError("--resume goes on with its own weights: expected it or --weights, not both");
  if (!words.times.empty() && words.options.action != Action::kPlan)
    throw ConfigError("--times " + words.times + ": expected --plan beside it");
  if (words.options.trace && words.options.action != Action::kTrain)
    throw ConfigError("--trace: only a training run has one");
  add_overrides(words);
  words.options.config = config_of(words);
  return words.options;
}

}  // namespace poseidon::apps
