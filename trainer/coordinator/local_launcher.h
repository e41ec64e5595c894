#pragma once

#include <string>
#include <vector>

#include "trainer/coordinator/child_processes.h"
#include "trainer/coordinator/launcher.h"

namespace poseidon::trainer {

/// Starts the members of a job as processes of this host. They share a secret of this run, and
/// write to log files in the run's directory. The members end by themselves when the coordinator
/// has ended. The destructor ends the members that still run.
class LocalLauncher final : public ChildLauncher {
 public:
  explicit LocalLauncher(LaunchOptions options);

  void start(const std::vector<comm::NodeId>& members, const std::string& coordinator) override;

 private:
  const LaunchOptions options_;
};

}  // namespace poseidon::trainer
