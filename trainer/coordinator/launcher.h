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

/// How the members of a job come to it: what the coordinator arranges itself by.
struct Gathering {
  std::string listen = {};  ///< "HOST:PORT", where members find the coordinator
  comm::Secret secret = {};
  comm::TlsFiles tls = {};
  bool insecure = false;
  /// Daemons, which come when they like, may be replaced until the job begins, and may have kept a
  /// step of the run. Else nobody is missing for long, and who is not let in is this job's error.
  bool by_themselves = false;
  /// Members share this machine's memory and read its data: what the job lacks is seen here first.
  bool on_this_host = false;
};

/// Starts the members of a job, and knows what has become of them. One kind for each place where
/// they may run; make_launcher() is where it is chosen. Used by the main thread.
class Launcher {
 public:
  struct Ended {
    comm::NodeId node;
    std::string how;  ///< "it ended with exit code 2 (see LOG): its last words"
  };

  explicit Launcher(Gathering gathering) : gathering_(std::move(gathering)) {}
  virtual ~Launcher() = default;
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  const Gathering& gathering() const { return gathering_; }

  /// Starts members that look for their coordinator at "host:port". Throws RunError where one
  /// cannot be started. Comes before this process has other threads.
  virtual void start(const std::vector<comm::NodeId>& members, const std::string& coordinator) = 0;
  /// Members that have ended since the last call.
  virtual std::vector<Ended> ended() = 0;
  /// How a member has ended of itself, "it was ended by signal 9 (see LOG)"; "" for one that has
  /// not, or that kill() or wait() has ended.
  virtual std::string end_of(comm::NodeId node) const = 0;
  /// Ends a member that may be stopped, or hang.
  virtual void kill(comm::NodeId node) = 0;
  /// Gives all of them some time to end, then ends them.
  virtual void wait(std::chrono::milliseconds grace) = 0;

 private:
  const Gathering gathering_;
};

struct LaunchOptions {
  std::filesystem::path run;  ///< the run's directory; logs are in a folder of it
  int64_t threads = 0;        ///< of a worker; 0: its host's cores, shared by the workers there
  std::chrono::seconds join_timeout{60};  ///< how long a member looks for the coordinator
};

/// For members that come by themselves, none that starts any; for hosts, one that starts processes
/// there; else local processes.
std::unique_ptr<Launcher> make_launcher(const ClusterOptions& cluster, LaunchOptions options);

}  // namespace poseidon::trainer
