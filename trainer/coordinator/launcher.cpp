#include "trainer/coordinator/launcher.h"

#include "trainer/coordinator/cluster_run.h"
#include "trainer/coordinator/local_launcher.h"
#include "trainer/coordinator/ssh_launcher.h"

namespace poseidon::trainer {

namespace {

/// The launcher for daemons, which this process neither starts nor ends.
class NoLauncher final : public Launcher {
 public:
  using Launcher::Launcher;
  void start(const std::vector<comm::NodeId>&, const std::string&) override {}
  std::vector<Ended> ended() override { return {}; }
  std::string end_of(comm::NodeId) const override { return ""; }
  void kill(comm::NodeId) override {}
  void wait(std::chrono::milliseconds) override {}
};

}  // namespace

std::unique_ptr<Launcher> make_launcher(const ClusterOptions& cluster, LaunchOptions options) {
  if (!cluster.ssh.hosts.empty())
    return std::make_unique<SshLauncher>(cluster.ssh, cluster.listen, std::move(options));
  if (!cluster.external) return std::make_unique<LocalLauncher>(std::move(options));
  return std::make_unique<NoLauncher>(JoinOptions{.listen = cluster.listen,
                                                  .secret = cluster.secret,
                                                  .tls = cluster.tls,
                                                  .insecure = cluster.insecure,
                                                  .members_are_daemons = true});
}

}  // namespace poseidon::trainer
