#pragma once

#include <string>
#include <vector>

#include "trainer/coordinator/child_processes.h"
#include "trainer/coordinator/launcher.h"

namespace poseidon::trainer {

/// Starts the members of a job as processes on this host. The members of a run share a random
/// secret, and write to log files in the run directory. They end by themselves if the coordinator
/// ends.
class LocalLauncher final : public ChildLauncher {
 public:
  explicit LocalLauncher(LaunchOptions options);

  void start(const std::vector<comm::NodeId>& members, const std::string& coordinator) override;

 private:
  const LaunchOptions options_;
};

}  // namespace poseidon::trainer
