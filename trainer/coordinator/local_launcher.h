#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "trainer/coordinator/launcher.h"

namespace poseidon::trainer {

/// The members of a job as processes of this host, which share a secret that nobody else knows, and
/// write to log files in the run's directory. They end by themselves when the coordinator is gone;
/// the destructor sees to those that do not.
class LocalLauncher final : public Launcher {
 public:
  explicit LocalLauncher(LaunchOptions options);
  ~LocalLauncher() override;

  void start(const std::vector<comm::NodeId>& members, const std::string& coordinator) override;
  std::vector<Ended> ended() override;
  std::string end_of(comm::NodeId node) const override;
  void kill(comm::NodeId node) override;
  void wait(std::chrono::milliseconds grace) override;

 private:
  struct Child {
    comm::NodeId node;
    pid_t process = 0;
    std::filesystem::path log;
    bool killed = false;  ///< by this process
  };
  void start(comm::NodeId node, const std::string& coordinator);
  std::vector<std::string> arguments(comm::NodeId node, const std::string& coordinator,
                                     int secret) const;

  const LaunchOptions options_;
  const std::filesystem::path logs_;
  std::vector<Child> running_;
  std::map<comm::NodeId, std::string> ends_;  ///< of those that nobody here has ended
};

}  // namespace poseidon::trainer
