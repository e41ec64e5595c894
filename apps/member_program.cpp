#include "apps/member_program.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdlib>
#include <future>
#include <iostream>
#include <optional>
#include <thread>

#include "apps/command_line.h"
#include "apps/flag_checks.h"
#include "apps/isa_option.h"
#include "apps/run_program.h"
#include "apps/service_manager.h"
#include "apps/stdin_watcher.h"
#include "apps/stop_signals.h"
#include "apps/tls_options.h"
#include "comm/wire/address.h"
#include "core/cores.h"
#include "core/error.h"
#include "core/mutex.h"
#include "trainer/messages/device_note.h"

namespace poseidon::apps {

using trainer::MemberEnd;
using trainer::MemberOptions;

namespace {

constexpr auto kBetweenJobs = std::chrono::seconds(1);
/// Time limit for leaving the job after standard input has ended.
constexpr auto kLeaving = std::chrono::seconds(30);

struct Arguments {
  MemberOptions options;
  std::string secret_file, device;
  std::string server_listen, server_advertise;
  std::string data_root, run_directory;
  /// Heartbeats of the server in a worker's process; null: no server.
  std::shared_ptr<trainer::Heartbeat> server_heartbeat;
  std::string stop_signals = kDefaultStopSignals;
  int64_t join_timeout = 0;
  int64_t workers_on_host = 1;
  bool once = false;
  bool end_with_stdin = false;
};

/// Suppresses a message that equals the previous one. A daemon that is not admitted retries, and
/// logs the same message each time.
class OnceLog final : public Log {
 public:
  /// `who` is the prefix of each message.
  OnceLog(Log& log, std::string who) : log_(log), who_(std::move(who)) {}
  void info(std::string_view message) override {
    if (is_new(message)) log_.info(who_ + std::string(message));
  }
  void warning(std::string_view message) override {
    if (is_new(message)) log_.warning(who_ + std::string(message));
  }

 private:
  bool is_new(std::string_view message) {
    MutexLock lock(mutex_);
    if (message == last_) return false;
    last_ = message;
    return true;
  }

  Log& log_;
  const std::string who_;
  Mutex mutex_;
  std::string last_ GUARDED_BY(mutex_);
};

/// Returns the rank that a launcher (Slurm, Open MPI or PMI) has set in the environment; -1 without
/// a launcher.
int64_t rank_of_launcher() {
  for (const char* variable : {"SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"})
    if (const char* value = std::getenv(variable)) return std::strtoll(value, nullptr, 10);
  return -1;
}

void add_options(CLI::App& app, Arguments& arguments, bool computes) {
  MemberOptions& options = arguments.options;
  app.add_option("--coordinator", options.coordinator, "HOST:PORT of poseidon-train")
      ->required()
      ->check(address(1));
  app.add_option("--listen", options.listen, "ADDR:PORT for peers; port 0: any free port")
      ->check(address());
  app.add_option("--advertise", options.advertise,
                 "HOST:PORT at which peers reach this node; port 0: the port of --listen")
      ->check(address());
  app.add_option("--secret-file", arguments.secret_file,
                 "file with the cluster's secret; -: the first line of standard input");
  add_tls_options(app, options.tls, "Options");
  app.add_flag("--insecure", options.insecure, "listen beyond loopback without a secret or TLS");
  app.add_option("--rank", options.wanted_rank,
                 "rank to request; default: the rank that srun or mpirun sets, else any")
      ->check(whole_number(0, 4095));
  app.add_option("--join-timeout", arguments.join_timeout,
                 "time limit of the search for the coordinator, s; 0: none")
      ->check(whole_number(0, 1000000000));
  app.add_option("--stop-signals", arguments.stop_signals,
                 "signals that end the daemon, in addition to INT, TERM and HUP, or none; default: "
                 "USR1,USR2,XCPU");
  app.add_flag("--once", arguments.once, "exit after one job");
  app.add_flag(
      "--end-with-stdin", arguments.end_with_stdin,
      "exit when standard input ends, as when the ssh connection that started the daemon closes");
  if (!computes) return;
  app.add_option("--device", arguments.device,
                 "devices of this worker, of one kind: cpu, cuda:1, cuda:0,cuda:1; default: the "
                 "devices of the job");
  app.add_option("--threads", options.threads, "compute threads; 0: all cores")
      ->check(whole_number(0, 1024));
  app.add_option("--workers-on-host", arguments.workers_on_host,
                 "set by poseidon-train: number of workers that share the cores with --threads 0")
      ->check(whole_number(1))
      ->group("");
  app.add_option("--data-root", arguments.data_root,
                 "folder with the data of jobs; data outside it is not read")
      ->envname("POSEIDON_DATA");
  app.add_option("--run-directory", arguments.run_directory,
                 "set by poseidon-train for its own processes: its run directory")
      ->group("");
  CLI::Option* server =
      app.add_option("--server-listen", arguments.server_listen,
                     "also run a server in this process, at ADDR:PORT; port 0: any free port")
          ->check(address());
  app.add_option("--server-advertise", arguments.server_advertise,
                 "HOST:PORT at which workers reach that server; default: host of --advertise")
      ->check(address())
      ->needs(server);
}

using OneJob = MemberEnd (*)(const MemberOptions&, Log&);

int run_jobs(const Arguments& arguments, MemberOptions options, OneJob one_job, Log& log) {
  while (true) {
    const MemberEnd end = one_job(options, log);
    if (options.stop.stop_requested()) return 0;
    if (arguments.once || (end == MemberEnd::kRefused && arguments.join_timeout > 0))
      return static_cast<int>(end);
    options.pause = kBetweenJobs;
    // A worker that stores an in-memory checkpoint waits for a job at least until the checkpoint
    // expires.
    if (options.checkpoint_store != nullptr && arguments.join_timeout > 0)
      options.join_timeout =
          std::max(arguments.options.join_timeout,
                   options.checkpoint_store->left(trainer::InMemoryCheckpointStore::Clock::now()));
  }
}

/// Returns "HOST:0" for "HOST:PORT".
std::string with_any_port(const std::string& address) {
  return comm::to_string({.host = comm::parse_address(address).host, .port = 0});
}

/// Runs a worker in this thread, and the server of --server-listen in another thread. Returns the
/// exit code.
int run_node(const char* name, const Arguments& arguments, OneJob one_job) {
  const auto part = [&](const MemberOptions& options, OneJob job, const std::string& who) {
    try {
      StandardErrorLog standard_error;
      OnceLog log(standard_error, who);
      const int code = run_jobs(arguments, options, job, log);
      options.heartbeat->over();
      return code;
    } catch (...) {
      // Exit at once. Otherwise the worker would wait forever for the server, or the server for the
      // worker.
      std::_Exit(report(name, std::current_exception()));
    }
  };
  MemberOptions server = arguments.options;
  server.checkpoint_store = nullptr;
  server.heartbeat = arguments.server_heartbeat;
  server.listen = arguments.server_listen;
  server.advertise = arguments.server_advertise;
  if (server.advertise.empty() && !arguments.options.advertise.empty())
    server.advertise = with_any_port(arguments.options.advertise);
  std::future<int> beside =
      std::async(std::launch::async, part, server, trainer::run_server, "server: ");
  const int worker_code = part(arguments.options, one_job, "");
  const int server_code = beside.get();
  // A job may need fewer servers than workers, so a refused server is not a failure.
  const bool server_counts =
      worker_code == 0 && server_code != static_cast<int>(MemberEnd::kRefused);
  return server_counts ? server_code : worker_code;
}

comm::Secret secret_of(const std::string& file, Log& log) {
  if (file.empty()) return {};
  return file == "-" ? comm::read_secret_line(STDIN_FILENO, "standard input")
                     : comm::read_secret(file, log);
}

/// Sets the options that the parser does not set. Reads the secret.
void complete(Arguments& arguments, const char* name, bool computes) {
  MemberOptions& options = arguments.options;
  StandardErrorLog log;
  options.join_timeout = std::chrono::seconds(arguments.join_timeout);
  options.abandon = [name](const std::string& why) {
    std::fprintf(stderr, "%s: %s; the process exits\n", name, why.c_str());
    std::_Exit(static_cast<int>(MemberEnd::kPeerFailed));
  };
  options.secret = secret_of(arguments.secret_file, log);
  if (options.threads == 0 && arguments.workers_on_host > 1)
    options.threads = std::max<int64_t>(1, available_cores() / arguments.workers_on_host);
  options.run_directory = arguments.run_directory;
  if (!arguments.once && computes)
    options.checkpoint_store = std::make_shared<trainer::InMemoryCheckpointStore>();
  if (!arguments.device.empty())
    options.devices = trainer::devices_of_this_machine(arguments.device);
  if (!arguments.data_root.empty()) options.data_root = trainer::DataRoot(arguments.data_root);
}

int run(const char* name, const char* description, bool computes, int count, char** values,
        OneJob one_job) {
  CLI::App app(description, name);
  app.footer("docs/cluster.md: jobs on several machines. docs/security.md: secrets and TLS.");
  add_isa_and_version(app, name, "Options");
  Arguments arguments;
  add_options(app, arguments, computes);
  arguments.options.wanted_rank = rank_of_launcher();
  if (!parse_command_line(app, name, count, values)) return 0;
  std::stop_source stop;
  arguments.options.stop = stop.get_token();
  const StopSignals signals(
      [&stop](const std::string& signal) {
        StandardErrorLog().info(stopping_text(signal, "shutting down"));
        stop.request_stop();
      },
      read_stop_signals(arguments.stop_signals));
  complete(arguments, name, computes);
  std::atomic<bool> input_has_ended = false;
  arguments.options.why_stopped = [&input_has_ended] {
    return input_has_ended ? "its standard input has ended" : "it received a stop signal";
  };
  std::optional<StdinWatcher> stdin_watcher;
  if (arguments.end_with_stdin)
    stdin_watcher.emplace(
        [&] {
          StandardErrorLog().info("standard input has ended: shutting down");
          input_has_ended = true;
          stop.request_stop();
        },
        kLeaving,
        [&] {
          arguments.options.abandon("it did not leave the job in time after standard input ended");
        });
  StandardErrorLog standard_error;
  trainer::ServiceManagerReporter::Parts parts{arguments.options.heartbeat};
  if (!arguments.server_listen.empty()) {
    arguments.options.in_process_hub = comm::make_in_process_hub();
    arguments.server_heartbeat = std::make_shared<trainer::Heartbeat>("server: ");
    parts.push_back(arguments.server_heartbeat);
  }
  const auto watch = watched_by_manager(parts, arguments.options.stop, standard_error);
  if (!arguments.server_listen.empty()) return run_node(name, arguments, one_job);
  OnceLog log(standard_error, "");
  return run_jobs(arguments, arguments.options, one_job, log);
}

}  // namespace

int run_member_program(const char* name, const char* description, bool computes, int count,
                       char** arguments, MemberEnd (*one_job)(const MemberOptions&, Log&)) {
  return run_program(name, count, arguments,
                     [=] { return run(name, description, computes, count, arguments, one_job); });
}

}  // namespace poseidon::apps
