#pragma once

#include <string>
#include <vector>

#include "trainer/coordinator/child_processes.h"
#include "trainer/coordinator/launcher.h"
#include "trainer/coordinator/ssh_options.h"

namespace poseidon::trainer {

/// Starts the members of a job on other hosts. Each member has an ssh process on this host, which
/// passes the secret to the member's standard input. The member's standard input ends when the
/// coordinator ends, and the member then ends too. Log files are in the run directory on this host.
class SshLauncher final : public ChildLauncher {
 public:
  /// `listen`: "HOST:PORT" of this host; the other hosts must be able to reach it.
  SshLauncher(SshOptions ssh, const std::string& listen, LaunchOptions options);

  void start(const std::vector<comm::NodeId>& members, const std::string& coordinator) override;

 private:
  std::vector<std::string> command_of(comm::NodeId node, const std::string& coordinator,
                                      const HostAssignment& assignment) const;

  const SshOptions ssh_;
  const LaunchOptions options_;
  /// Write ends of the children's standard input. The destructor closes them before ChildLauncher's
  /// destructor waits for the children, so that the members end.
  std::vector<Descriptor> inputs_;
};

}  // namespace poseidon::trainer
