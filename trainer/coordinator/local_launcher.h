#pragma once

#include <string>
#include <vector>

#include "trainer/coordinator/child_processes.h"
#include "trainer/coordinator/launcher.h"

namespace poseidon::trainer {

/// The members of a job as processes of this host, which share a secret that nobody else knows, and
/// write to log files in the run's directory. They end by themselves when the coordinator is gone;
/// the destructor sees to those that do not.
class LocalLauncher final : public Launcher {
 public:
  explicit LocalLauncher(LaunchOptions options);

  void start(const std::vector<comm::NodeId>& members, const std::string& coordinator) override;
  std::vector<Ended> ended() override { return children_.ended(); }
  std::string end_of(comm::NodeId node) const override { return children_.end_of(node); }
  void kill(comm::NodeId node) override { children_.kill(node); }
  void wait(std::chrono::milliseconds grace) override { children_.wait(grace); }

 private:
  const LaunchOptions options_;
  ChildProcesses children_;
};

}  // namespace poseidon::trainer
