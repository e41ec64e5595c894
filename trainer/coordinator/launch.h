#pragma once

#include <sys/types.h>

#include <chrono>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "comm/wire/handshake.h"
#include "comm/wire/node.h"

namespace poseidon::trainer {

/// The local processes of a job: workers and servers on this host, started with a secret that only
/// they know, their words in log files. They end by themselves when the coordinator is gone; the
/// destructor sees to those that do not.
class Children {
 public:
  struct Options {
    std::filesystem::path programs;  ///< folder of poseidon-worker and poseidon-server
    std::filesystem::path run;       ///< the run's directory; logs are in a folder of it
    std::string coordinator;         ///< "127.0.0.1:port"
    comm::Secret secret;
    int64_t threads = 1;                    ///< of a worker
    std::chrono::seconds join_timeout{60};  ///< how long a child looks for the coordinator
  };
  struct Ended {
    comm::NodeId node;
    std::string how;  ///< "it ended with exit code 2 (see LOG)"
  };

  explicit Children(Options options);
  ~Children();
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  /// Throws RunError when the program cannot be started.
  void start(comm::NodeId node);
  /// Children that have ended since the last call.
  std::vector<Ended> ended();
  /// How a child has ended of itself, "it was ended by signal 9 (see LOG)"; "" for one that has
  /// not, or that kill() or wait() has ended.
  std::string end_of(comm::NodeId node) const;
  /// Ends a child that may be stopped, or hang.
  void kill(comm::NodeId node);
  /// Gives all of them some time to end, then ends them.
  void wait(std::chrono::milliseconds patience);

 private:
  struct Child {
    comm::NodeId node;
    pid_t process = 0;
    std::filesystem::path log;
    bool killed = false;  ///< by this process
  };
  std::vector<std::string> arguments(comm::NodeId node, int secret) const;

  const Options options_;
  const std::filesystem::path logs_;
  std::vector<Child> running_;
  std::map<comm::NodeId, std::string> ends_;  ///< of those that nobody here has ended
};

/// A secret for one run. As text: who reads one from a file leaves out white space at its end.
comm::Secret random_secret();

/// The folder of the running program.
std::filesystem::path program_folder();

}  // namespace poseidon::trainer
