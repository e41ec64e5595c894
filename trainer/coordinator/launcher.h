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

/// How the coordinator reaches the members of a job.
struct JoinOptions {
  std::string listen = {};  ///< "HOST:PORT" at which the coordinator listens for members
  comm::Secret secret = {};
  comm::TlsFiles tls = {};
  bool insecure = false;
  /// Members are daemons. They join at any time, may be replaced until the job begins, and may have
  /// an in-memory checkpoint of the run. If false, this process starts all members, and a refused
  /// member is an error of the job.
  bool members_are_daemons = false;
  /// Members use this machine's memory and data, so this process can check them first.
  bool on_this_host = false;
};

/// Starts the members of a job, and reports how they end. Each kind of location has a subclass;
/// make_launcher() selects it. Used by the main thread.
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

  /// Starts members that connect to their coordinator at "host:port". Throws RunError if one cannot
  /// be started. Call it before this process has other threads.
  virtual void start(const std::vector<comm::NodeId>& members, const std::string& coordinator) = 0;
  /// Members that have ended since the last call.
  virtual std::vector<Ended> ended() = 0;
  /// How a member has ended by itself: "it was ended by signal 9 (see LOG)". "" if it has not, or
  /// if kill() or wait() has ended it.
  virtual std::string end_of(comm::NodeId node) const = 0;
  /// Ends a member by force, because it may be stopped or may hang.
  virtual void kill(comm::NodeId node) = 0;
  /// Waits `grace` for all members to end, then ends the remaining ones.
  virtual void wait(std::chrono::milliseconds grace) = 0;

 private:
  const JoinOptions join_options_;
};

struct LaunchOptions {
  std::filesystem::path run;  ///< run directory; it contains the logs folder
  int64_t threads = 0;  ///< of a worker; 0: its host's cores, divided among the host's workers
  std::chrono::seconds join_timeout{60};  ///< time limit of a member for finding the coordinator
};

/// Creates a launcher. It starts the members on the hosts of `cluster`, or on this host if
/// `cluster` has no hosts. For external daemons it starts nothing.
std::unique_ptr<Launcher> make_launcher(const ClusterOptions& cluster, LaunchOptions options);

}  // namespace poseidon::trainer
