#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/file.h"
#include "trainer/coordinator/launcher.h"

namespace poseidon::trainer {

/// Command that starts a child process. The child has the environment of this process.
struct ChildCommand {
  std::vector<std::string> arguments;  ///< first the program: a path, or a name in PATH
  Descriptor input = {};               ///< becomes the child's standard input; default: empty input
  Descriptor inherited = {};           ///< stays open in the child with its number; default: none
};

/// The child processes of this process, one for each member of a job. The children ignore stop
/// signals such as SIGINT and all signals that this process blocks, because these can be sent to
/// the whole process group. Each child writes to a log file in a folder. The destructor calls
/// wait() with a grace period of 2 s.
class ChildProcesses {
 public:
  /// `logs`: folder of the log files.
  explicit ChildProcesses(std::filesystem::path logs) : logs_(std::move(logs)) {}
  ~ChildProcesses();
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  /// Starts the process of a member. Throws RunError if its log file cannot be written or the
  /// program cannot be run.
  void start(comm::NodeId node, const ChildCommand& command);
  // The next functions implement those of Launcher with the same names.
  std::vector<Launcher::Ended> ended();
  std::string end_of(comm::NodeId node) const;
  void kill(comm::NodeId node);
  void wait(std::chrono::milliseconds grace);

 private:
  struct Child {
    comm::NodeId node;
    pid_t process = 0;
    std::filesystem::path log;
    uint64_t said_before = 0;  ///< bytes in the log before this process started
    bool killed = false;       ///< whether this process has sent SIGKILL
  };
  Descriptor open_log(Child& child) const;
  static std::string how_it_ended(const Child& child, int status);

  const std::filesystem::path logs_;
  std::vector<Child> running_;
  std::map<comm::NodeId, std::string> ends_;  ///< texts of end_of()
};

/// A launcher that starts one child process for each member. The child is the member, or an ssh
/// process that runs the member on another host.
class ChildLauncher : public Launcher {
 public:
  /// `logs`: folder of the log files.
  ChildLauncher(JoinOptions join_options, std::filesystem::path logs)
      : Launcher(std::move(join_options)), children_(std::move(logs)) {}

  std::vector<Ended> ended() override { return children_.ended(); }
  std::string end_of(comm::NodeId node) const override { return children_.end_of(node); }
  void kill(comm::NodeId node) override { children_.kill(node); }
  void wait(std::chrono::milliseconds grace) override { children_.wait(grace); }

 protected:
  ChildProcesses children_;
};

}  // namespace poseidon::trainer
