#pragma once

#include <string>
#include <vector>

#include "trainer/coordinator/child_processes.h"
#include "trainer/coordinator/launcher.h"
#include "trainer/coordinator/ssh_options.h"

namespace poseidon::trainer {

/// Starts the members of a job on other hosts. Each member has an ssh process on this host. The ssh
/// process passes the secret to the member's standard input. If this input ends, the member assumes
/// that the coordinator has ended. Log files are in the run's directory on this host.
class SshLauncher final : public ChildLauncher {
 public:
  /// `listen` is an address of this host that the other hosts can reach.
  SshLauncher(SshOptions ssh, const std::string& listen, LaunchOptions options);

  void start(const std::vector<comm::NodeId>& members, const std::string& coordinator) override;

 private:
  std::vector<std::string> command_of(comm::NodeId node, const std::string& coordinator,
                                      const HostAssignment& assignment) const;

  const SshOptions ssh_;
  const LaunchOptions options_;
  /// Input pipes of the children. The destructor closes them before it waits for the children, so
  /// that the members leave.
  std::vector<Descriptor> inputs_;
};

}  // namespace poseidon::trainer
