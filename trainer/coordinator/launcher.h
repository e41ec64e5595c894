#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "comm/asio/driver.h"
#include "comm/wire/node.h"

namespace poseidon::trainer {

struct ClusterOptions;

/// How the members of a job connect to the coordinator.
struct JoinOptions {
  std::string listen = {};  ///< "HOST:PORT" at which the coordinator listens for members
  comm::Secret secret = {};
  comm::TlsFiles tls = {};
  bool insecure = false;  ///< permits listening beyond loopback without secret and TLS
  /// Members are daemons. They join at any time, can be replaced until the job begins, and may have
  /// an in-memory checkpoint of the run. If false, this process starts all members, and a refused
  /// member is an error of the job.
  bool members_are_daemons = false;
  /// All members run on this host. So this process can check their data and memory first.
  bool on_this_host = false;
};

/// Starts the members of a job, and reports how they end. There is a subclass for this host, for
/// other hosts, and for daemons; make_launcher() selects it. Used by the main thread.
class Launcher {
 public:
  struct Ended {
    comm::NodeId node;
    std::string how;  ///< "it ended with exit code 2 (see LOG): last line of its log"
  };

  explicit Launcher(JoinOptions join_options) : join_options_(std::move(join_options)) {}
  virtual ~Launcher() = default;
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  const JoinOptions& join_options() const { return join_options_; }

  /// Starts members. They connect to the coordinator at "host:port". Throws RunError if a member
  /// cannot be started. Call it before this process has other threads, because it forks.
  virtual void start(const std::vector<comm::NodeId>& members, const std::string& coordinator) = 0;
  /// Returns the members that have ended since the last call, except those whose end kill() or
  /// wait() has detected.
  virtual std::vector<Ended> ended() = 0;
  /// How a member ended by itself, such as "it was ended by signal 9 (see LOG)". "" if it still
  /// runs, or if kill() or wait() ended it.
  virtual std::string end_of(comm::NodeId node) const = 0;
  /// Ends a member's child process by SIGKILL, because it may be suspended or hang. Before this,
  /// waits at most 200 ms for the process to end by itself. Does nothing for daemons.
  virtual void kill(comm::NodeId node) = 0;
  /// Waits at most `grace` for all child processes to end. Then sends SIGKILL to the remaining
  /// ones, and waits at most 2 s for them. Does nothing for daemons.
  virtual void wait(std::chrono::milliseconds grace) = 0;

 private:
  const JoinOptions join_options_;
};

struct LaunchOptions {
  std::filesystem::path run;  ///< run directory; "logs" in it has the log files
  int64_t threads = 0;        ///< compute threads of a worker; 0: cores of its host / workers on it
  std::chrono::seconds join_timeout{60};  ///< limit on a member's attempts to connect
};

/// Creates the launcher for the hosts of `cluster`, or for this host if `cluster` has no hosts. For
/// external daemons, the launcher starts no processes.
std::unique_ptr<Launcher> make_launcher(const ClusterOptions& cluster, LaunchOptions options);

}  // namespace poseidon::trainer
