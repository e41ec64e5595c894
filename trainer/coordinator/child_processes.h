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

/// How a child is started, beyond its environment, which is this process's with passive waiting.
struct ChildCommand {
  std::vector<std::string> arguments;  ///< first the program: a path, or a name to seek in PATH
  Descriptor input = {};               ///< becomes its standard input; without one that is empty
  Descriptor inherited =
      {};  ///< stays open in the child under its number; without one nothing does
};

/// The processes that this one has started for members of a job. They ignore signals to the whole
/// group, write to log files in a folder, and the destructor ends those that have not ended.
class ChildProcesses {
 public:
  explicit ChildProcesses(std::filesystem::path logs) : logs_(std::move(logs)) {}
  ~ChildProcesses();
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  /// Starts the process of a member. Throws RunError where its log file cannot be written or the
  /// program cannot be run.
  void start(comm::NodeId node, const ChildCommand& command);
  /// As Launcher's functions of these names.
  std::vector<Launcher::Ended> ended();
  std::string end_of(comm::NodeId node) const;
  void kill(comm::NodeId node);
  void wait(std::chrono::milliseconds grace);

 private:
  struct Child {
    comm::NodeId node;
    pid_t process = 0;
    std::filesystem::path log;
    uint64_t said_before = 0;  ///< bytes of the log that are an earlier process's
    bool killed = false;       ///< by this process
  };
  Descriptor open_log(Child& child) const;
  static std::string how_it_ended(const Child& child, int status);

  const std::filesystem::path logs_;
  std::vector<Child> running_;
  std::map<comm::NodeId, std::string> ends_;  ///< of those that nobody here has ended
};

/// A launcher whose members are children of this process, or have one here that stands for them.
class ChildLauncher : public Launcher {
 public:
  /// `logs`: the folder of the log files.
  ChildLauncher(Gathering gathering, std::filesystem::path logs)
      : Launcher(std::move(gathering)), children_(std::move(logs)) {}

  std::vector<Ended> ended() override { return children_.ended(); }
  std::string end_of(comm::NodeId node) const override { return children_.end_of(node); }
  void kill(comm::NodeId node) override { children_.kill(node); }
  void wait(std::chrono::milliseconds grace) override { children_.wait(grace); }

 protected:
  ChildProcesses children_;
};

}  // namespace poseidon::trainer
