#pragma once

#include <functional>
#include <string>

#include "comm/asio/driver.h"
#include "core/json.h"
#include "trainer/coordinator/ssh_options.h"
#include "trainer/job/job.h"
#include "trainer/job/run_options.h"
#include "trainer/report/console.h"

namespace poseidon::trainer {

/// Where the members of a job come from.
struct ClusterOptions {
  bool external = false;  ///< daemons join; else this process starts the members
  SshOptions ssh = {};    ///< where it starts them; without hosts, here
  std::string listen;     ///< "HOST:PORT" with `external` and with hosts
  comm::Secret secret;
  comm::TlsFiles tls = {};  ///< with `external`
  bool insecure = false;
  /// Told the summary of a run that fails after its first step, as far as it is known.
  std::function<void(const Json&)> failed = [](const Json&) {};
};

/// Trains the job on several workers, as their coordinator. Returns what it wrote to summary.json.
/// Throws ConfigError, RunError; PeerLost when a process is lost: the last complete step is then in
/// the run directory, and summary.json says in "failure" why it ended.
Json train_on_cluster(const Job& job, const RunOptions& options, const ClusterOptions& cluster,
                      Console& console);

}  // namespace poseidon::trainer
