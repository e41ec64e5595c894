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

/// How the members of a job are started, and how they connect to the coordinator.
struct ClusterOptions {
  bool external = false;    ///< daemons join; if false, this process starts the members
  SshOptions ssh = {};      ///< hosts on which this process starts the members; none: this host
  std::string listen;       ///< "HOST:PORT" to listen at; only with `external` or hosts
  comm::Secret secret;      ///< only with `external`; otherwise the launcher generates one
  comm::TlsFiles tls = {};  ///< only with `external`
  bool insecure = false;    ///< permits listening beyond loopback without secret and TLS
  /// Called with the known part of summary.json if a run fails after training has begun, and its
  /// run directory stays.
  std::function<void(const Json&)> failed = [](const Json&) {};
};

/// Trains the job on several workers; this process is their coordinator. Returns the content of
/// summary.json. Throws ConfigError or RunError, and PeerFailed if a failed node has ended the job.
/// If a run fails after training has begun and its run directory stays, first writes summary.json
/// with the reason as "failure".
Json train_on_cluster(const Job& job, const RunOptions& options, const ClusterOptions& cluster,
                      Console& console);

}  // namespace poseidon::trainer
