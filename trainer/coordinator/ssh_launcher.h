#pragma once

#include <string>
#include <vector>

#include "trainer/coordinator/child_processes.h"
#include "trainer/coordinator/launcher.h"
#include "trainer/coordinator/ssh_options.h"

namespace poseidon::trainer {

/// The members of a job on other hosts: for each an ssh process of this host, which gives it the
/// secret by its standard input and whose end it takes for the coordinator's. Log files are in the
/// run's directory here.
class SshLauncher final : public ChildLauncher {
 public:
  /// `listen` is an address of this host that the others reach.
  SshLauncher(SshOptions ssh, const std::string& listen, LaunchOptions options);

  void start(const std::vector<comm::NodeId>& members, const std::string& coordinator) override;

 private:
  std::vector<std::string> command_of(comm::NodeId node, const std::string& coordinator,
                                      const HostDeal& deal) const;

  const SshOptions ssh_;
  const LaunchOptions options_;
  /// Of the children. They are closed before those are waited for, so that the members leave.
  std::vector<Descriptor> inputs_;
};

}  // namespace poseidon::trainer
