// poseidon-train: trains a network from a job file, or checks, times and tests it.

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "apps/output_file.h"
#include "apps/run_program.h"
#include "apps/stop_signals.h"
#include "apps/train_options.h"
#include "apps/train_print.h"
#include "core/cores.h"
#include "core/counted.h"
#include "core/error.h"
#include "core/file.h"
#include "trainer/coordinator/cluster_run.h"
#include "trainer/inference/classify.h"
#include "trainer/inference/extract.h"
#include "trainer/inference/test.h"
#include "trainer/job/choices.h"
#include "trainer/job/reference.h"
#include "trainer/job/run_options.h"
#include "trainer/measure/devices.h"
#include "trainer/measure/memory_estimate.h"
#include "trainer/measure/timing.h"
#include "trainer/measure/tune.h"
#include "trainer/plan/sync_plan.h"
#include "trainer/report/run_directory.h"
#include "trainer/report/trace_file.h"
#include "trainer/run/run.h"
#include "trainer/state/run_tensors.h"

namespace poseidon::apps {

namespace {

using trainer::Console;
using trainer::Job;

trainer::JobSource source_of(const TrainOptions& options) {
  return {
      .file = options.config,
      .overrides = options.overrides,
      .lookup = [](std::string_view name) -> std::optional<std::string> {
        const char* value = std::getenv(std::string(name).c_str());
        if (value == nullptr) return std::nullopt;
        return value;
      },
      .data_may_be_missing = options.action == Action::kCheck || options.action == Action::kPlan ||
                             options.action == Action::kTime || options.action == Action::kTune ||
                             options.action == Action::kClassify,
      .data_is_elsewhere = options.external || !options.ssh.hosts.empty(),
      .use = options.action == Action::kPlan ? trainer::JobUse::kPlan : trainer::JobUse::kRun};
}

/// Converts the command line's options to those of a run. If --weights names a run directory, the
/// weights are its newest checkpoint.
trainer::RunOptions run_options(const TrainOptions& options, Console& console,
                                const std::atomic<bool>* stop = nullptr) {
  return {.output = options.output,
          .resume = options.resume,
          .weights = trainer::weights_file_of(options.weights, console),
          .replan = options.replan,
          .max_steps = options.max_steps,
          .trace = options.trace,
          .stop = stop,
          .command = options.command,
          .resume_flags = options.resume_flags};
}

void print(const Json& result, bool as_json, void (*for_people)(const Json&)) {
  if (!as_json) return for_people(result);
  std::printf("%s\n", result.dump().c_str());
}

/// Returns the path of a result file: `name` in the output folder, which is created. Without an
/// output folder it is <job name>.<name> in the working directory. Throws ConfigError if the file
/// exists, unless --force is set.
std::filesystem::path result_file(const Job& job, const TrainOptions& options, const char* name) {
  const bool here = options.output.empty();
  const std::filesystem::path file =
      here ? std::filesystem::path(job.config.name + "." + name) : options.output / name;
  refuse_existing(file, options.force);
  if (!here) std::filesystem::create_directories(options.output);
  return file;
}

/// With --trace and --resume, throws ConfigError if the run directory has a trace of an earlier
/// session, unless --force is set.
void refuse_existing_trace(const TrainOptions& options) {
  if (!options.trace || options.resume.empty()) return;
  const std::filesystem::path run =
      options.output.empty() ? trainer::run_directory_of(options.resume) : options.output;
  refuse_existing(run / trainer::kTraceFile, options.force);
}

/// Times the layouts and algorithms of each layer, and writes the fastest ones to a file. The job's
/// key device.choices can name this file.
void tune(const Job& job, const TrainOptions& options, Console& console) {
  const std::filesystem::path file = result_file(job, options, "choices.json");
  const Json result = trainer::tune(job, console);
  write_file(file, result.dump(2) + "\n");
  if (options.json) return print(result, true, nullptr);
  std::printf(
      "%.1f ms per step with the fixed rule, %.1f ms with the tuned choices, written to %s\n",
      result["rule_ms"].get<double>(), result["tuned_ms"].get<double>(), file.c_str());
}

/// Returns true if this process trains: the job has one worker, on this machine. Otherwise the
/// workers are separate processes.
bool trains_here(const Job& job, const TrainOptions& options) {
  return job.config.cluster.workers == 1 && !options.external && options.ssh.hosts.empty();
}

void check_slots(const Job& job, const TrainOptions& options) {
  if (options.ssh.hosts.empty()) return;
  const int64_t workers = job.config.cluster.workers, slots = trainer::slots_of(options.ssh.hosts);
  if (workers > slots)
    throw ConfigError(text(options.hosts_file.string(), ": expected at least ", workers,
                           " slots, one per worker, got ", slots,
                           "; add hosts or slots=N, or reduce --workers"));
}

/// Throws ConfigError if the job expects members that join after the start, but --external is not
/// set. Only daemons can join after the start.
void check_later_members(const Job& job, const TrainOptions& options) {
  const trainer::ClusterConfig& cluster = job.config.cluster;
  const auto refuse = [&](const char* key, auto got) {
    throw ConfigError(text(job.file, ": /cluster/", key,
                           ": expected 0 without --external (only daemons can join later), got ",
                           got));
  };
  if (options.external) return;
  if (cluster.max_workers > 0) refuse("max_workers", cluster.max_workers);
  if (cluster.gather_s > 0) refuse("gather_s", cluster.gather_s);
}

std::function<void(const std::string&)> asks_to_stop(Console& console, const std::string& after) {
  return [&console, after](const std::string& signal) {
    console.info(stopping_text(signal, "stopping after this " + after));
  };
}

std::vector<int> stop_signals(const TrainOptions& options) {
  return read_stop_signals(options.stop_signals);
}

/// Throws ConfigError if the limit on open files is too low. A run needs files for data and
/// results. A coordinator also needs several for each member.
void check_open_files(const Job& job, const TrainOptions& options) {
  constexpr rlim_t kOfRun = 16, kOfMember = 6;
  const trainer::ClusterConfig& cluster = job.config.cluster;
  const auto members = static_cast<rlim_t>(cluster.workers + cluster.servers);
  const rlim_t expected = trains_here(job, options) ? kOfRun : kOfRun + kOfMember * members;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= expected) return;
  throw ConfigError(text("the limit on open files (ulimit -n) is ", limit.rlim_cur,
                         ", expected at least ", expected, " for this run; raise the limit"));
}

Json train(const Job& job, const TrainOptions& options, Console& console) {
  check_open_files(job, options);
  check_later_members(job, options);
  refuse_existing_trace(options);
  const StopSignals signals(asks_to_stop(console, "step"), stop_signals(options));
  trainer::RunOptions run = run_options(options, console, &signals.come());
  if (trains_here(job, options)) return trainer::train(job, run, console);
  check_slots(job, options);
  // --hosts sets one worker per slot, which would replace the run's number of workers. Therefore
  // the command to resume the run needs --workers.
  if (!options.ssh.hosts.empty() && run.resume_flags.find(" --workers ") == std::string::npos)
    run.resume_flags += text(" --workers ", job.config.cluster.workers);
  trainer::ClusterOptions cluster{.external = options.external,
                                  .ssh = options.ssh,
                                  .listen = options.listen,
                                  .secret = {},
                                  .tls = options.tls,
                                  .insecure = options.insecure,
                                  .failed = [&options](const Json& summary) {
                                    print(summary, options.json, print_summary);
                                    std::fflush(stdout);
                                  }};
  if (!options.secret_file.empty())
    cluster.secret = comm::read_secret(options.secret_file, console);
  return trainer::train_on_cluster(job, run, cluster, console);
}

Json test(const Job& job, const TrainOptions& options, Console& console) {
  const StopSignals signals(asks_to_stop(console, "batch"), stop_signals(options));
  return trainer::test(job, run_options(options, console, &signals.come()), console);
}

Json extract(const Job& job, const TrainOptions& options, Console& console) {
  const StopSignals signals(asks_to_stop(console, "batch"), stop_signals(options));
  return trainer::extract(job, run_options(options, console, &signals.come()), options.layers,
                          result_file(job, options, "features.safetensors"), console);
}

/// Prints the scores of all readable images, then the errors of the unreadable images. Throws
/// RunError if an image is unreadable.
void classify(const Job& job, const TrainOptions& options, Console& console) {
  const Json result = trainer::classify(job, run_options(options, console),
                                        {options.images.begin(), options.images.end()}, console);
  print(result, options.json, print_scores);
  int64_t failed = 0;
  for (const Json& image : result["images"]) {
    if (!image.contains("error")) continue;
    console.info(image["error"].get<std::string>());
    ++failed;
  }
  if (failed > 0)
    throw RunError(
        text(failed, " of ", counted(options.images.size(), "image"), " could not be classified"));
}

Json check(const Job& job, const TrainOptions& options, Console& console) {
  const bool has_weights = !options.weights.empty() || !options.resume.empty();
  return trainer::check_job(job, has_weights, console);
}

/// Returns true if this process computes. Otherwise it only coordinates other processes, and needs
/// no compute threads.
bool computes_here(const Job& job, const TrainOptions& options) {
  return options.action != Action::kTrain || trains_here(job, options);
}

/// Throws ConfigError if this process cannot start as many threads as the job requests. If the job
/// requests more threads than cores, starts them once as a test. Without this test, the error would
/// not name the setting.
void check_threads(const Job& job) {
  const int64_t wanted = job.config.device.threads;
  if (wanted <= available_cores()) return;
  std::atomic<bool> over = false;
  std::vector<std::jthread> threads;
  std::string why;
  try {
    while (std::ssize(threads) < wanted) threads.emplace_back([&over] { over.wait(false); });
  } catch (const std::system_error& error) {
    why = error.code().message();
  }
  over = true;
  over.notify_all();
  if (why.empty()) return;
  throw ConfigError(text(job.file, ": /device/threads: expected at most ", threads.size(), ", got ",
                         wanted, ": this process cannot start more threads (", why,
                         "; see ulimit -u and ulimit -v)"));
}

int perform(const TrainOptions& options, Console& console) {
  const Job job = trainer::load_job(source_of(options), console);
  if (computes_here(job, options)) check_threads(job);
  switch (options.action) {
    case Action::kCheck: print(check(job, options, console), options.json, print_check); break;
    case Action::kPlan:
      print(trainer::plan_job(job, options.times, options.simulates), options.json, print_plan);
      break;
    case Action::kTime:
      print(trainer::time_layers(job, trainer::choices_of(job), trainer::kTimingRepeats, console),
            options.json, print_timing);
      break;
    case Action::kTest: print(test(job, options, console), options.json, print_test); break;
    case Action::kClassify: classify(job, options, console); break;
    case Action::kExtract:
      print(extract(job, options, console), options.json, print_features);
      break;
    case Action::kTrain: print(train(job, options, console), options.json, print_summary); break;
    default: tune(job, options, console);
  }
  return 0;
}

Console::Mode console_mode() {
  const char* terminal = std::getenv("TERM");
  const bool live =
      isatty(STDERR_FILENO) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
  return live ? Console::Mode::kLive : Console::Mode::kLines;
}

int run(int count, char** arguments) {
  const std::optional<TrainOptions> options = parse_train_options(count, arguments);
  if (!options) return 0;
  if (options->action == Action::kSchema) {
    const bool job = options->schema == "job";
    std::printf("%s\n", (job ? trainer::job_schema() : trainer::network_schema()).dump(2).c_str());
    return 0;
  }
  if (options->action == Action::kReference) {
    std::printf("%s", trainer::config_reference().c_str());
    return 0;
  }
  if (options->action == Action::kDevices) {
    print(trainer::list_devices(), options->json, print_devices);
    return 0;
  }
  Console console(console_mode());
  return perform(*options, console);
}

}  // namespace

}  // namespace poseidon::apps

int main(int count, char** arguments) {
  using namespace poseidon::apps;
  return run_program("poseidon-train", count, arguments, [=] { return run(count, arguments); });
}
